// SPDX-License-Identifier: Apache-2.0

// Package work is what a client and the echo server agree on: the request's
// form, the names of headers, and bodies that both ends can compute from the
// request ID. It is a leaf: standard library only.
//
//	GET  /work?bytes=N&takes=MS[&chunked=1]   answers Body(id, N)
//	POST /work?takes=MS[&later=MS]            takes a body up, answers with an Uploaded
//	GET  /ws                                  echoes the messages of a WebSocket
//
// A GET's answer carries HeaderBytes and HeaderSHA256 before the body, and
// every answer HeaderPod, HeaderPeer and HeaderPhase. What is said in an opaque TCP stream
// stands in talk.go.
package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"
)

// URLPath is where the work is done, and WebSocketPath where messages are echoed.
const (
	URLPath       = "/work"
	WebSocketPath = "/ws"
)

// The headers.
const (
	// HeaderID, in a request: its ID, which the ledger repeats.
	HeaderID = "X-Lastcall-Id"
	// HeaderPressure, in a request without an ID: who makes the closed-loop load that it
	// is of. The backend counts Pressure's, and writes none down one by one.
	HeaderPressure = "X-Lastcall-Pressure"
	// HeaderPod, in an answer: the UID of the pod that speaks.
	HeaderPod = "X-Lastcall-Pod"
	// HeaderPeer, in an answer: the IP that its pod saw the request come from, with the port
	// where it tells that (IP:port): those of who passed it on, where somebody did.
	HeaderPeer = "X-Lastcall-Peer"
	// HeaderPhase, in an answer: Serving or Draining, when it began.
	HeaderPhase = "X-Lastcall-Phase"
	// HeaderBytes and HeaderSHA256, in an answer: what its whole body will be.
	HeaderBytes  = "X-Lastcall-Bytes"
	HeaderSHA256 = "X-Lastcall-Sha256"
)

// Pressure is the name of the suite's own closed-loop load, in HeaderPressure. Somebody
// else's beside it has another, or none: the count is held against the suite's alone.
const Pressure = "fortio"

// The values of HeaderPhase.
const (
	Serving  = "serving"
	Draining = "draining"
)

// Sizes of the bodies, in bytes (AheadBytes is more than a proxy has in its buffer of one
// connection, where it does not read on), the least time between the pieces of a slow one,
// and the most gaps between them: a body of 20 s in pieces of 100 ms would be half of
// what a run's machine does, and show no more.
const (
	SmallBytes = 256
	SlowBytes  = 16 << 10
	AheadBytes = 64 << 10
	PieceEvery = 100 * time.Millisecond
	maxGaps    = 20
)

// DripBytes are those of an upload each byte of which is a write of its own, and NeighbourTakes is how long what is
// asked for beside it takes.
const (
	DripBytes      = 100_000
	NeighbourTakes = time.Second
)

// MaxBytes and MaxTakes bound what a request may ask of a server.
const (
	MaxBytes = 64 << 20
	MaxTakes = 10 * time.Minute
)

// Job is what one request asks for.
type Job struct {
	// Bytes is the length of the answer's body; no meaning for an upload.
	Bytes int64
	// Takes is the time from the first to the last byte of the body.
	Takes time.Duration
	// Chunked asks for a body whose length isn't announced.
	Chunked bool
	// Later is the time from a request's last byte to its answer.
	Later time.Duration
}

// Query is the job as a query string, with the time in whole milliseconds.
func (j Job) Query() string {
	q := "takes=" + strconv.FormatInt(j.Takes.Milliseconds(), 10)
	if j.Bytes > 0 {
		q += "&bytes=" + strconv.FormatInt(j.Bytes, 10)
	}
	if j.Chunked {
		q += "&chunked=1"
	}
	if j.Later > 0 {
		q += "&later=" + strconv.FormatInt(j.Later.Milliseconds(), 10)
	}
	return q
}

// ParseJob reads what Query wrote; what is missing is zero.
func ParseJob(q url.Values) (Job, error) {
	var j Job
	if s := q.Get("bytes"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || n > MaxBytes {
			return Job{}, fmt.Errorf("bytes=%q: want a number from 0 to %d", s, MaxBytes)
		}
		j.Bytes = n
	}
	for name, d := range map[string]*time.Duration{"takes": &j.Takes, "later": &j.Later} {
		s := q.Get(name)
		if s == "" {
			continue
		}
		ms, err := strconv.ParseInt(s, 10, 64)
		if err != nil || ms < 0 || ms > MaxTakes.Milliseconds() {
			return Job{}, fmt.Errorf("%s=%q: want milliseconds from 0 to %d", name, s, MaxTakes.Milliseconds())
		}
		*d = time.Duration(ms) * time.Millisecond
	}
	switch s := q.Get("chunked"); s {
	case "", "0":
	case "1":
		j.Chunked = true
	default:
		return Job{}, fmt.Errorf("chunked=%q: want 0 or 1", s)
	}
	return j, nil
}

// Uploaded is the answer to an upload, as JSON: what arrived.
type Uploaded struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

// Body is the n bytes that belong to a request ID: ChaCha8 (C2SP
// chacha8rand, the same in every Go version) seeded with the ID's SHA-256.
func Body(id string, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8(sha256.Sum256([]byte(id))), n)
}

// Sum is the SHA-256 of Body(id, n), in hex.
func Sum(id string, n int64) string {
	h := sha256.New()
	// Neither end of this copy can fail.
	_, _ = io.Copy(h, Body(id, n))
	return hex.EncodeToString(h.Sum(nil))
}

// Send writes Body(id, n) to w, the first piece at once and the last one
// after takes, PieceEvery or more apart, and flushes each where w can
// (Flush()). It returns how many bytes w took, and w's error or ctx's.
func Send(ctx context.Context, w io.Writer, id string, n int64, takes time.Duration) (int64, error) {
	gaps := int64(takes / PieceEvery)
	if takes > 0 && gaps == 0 {
		gaps = 1
	}
	return sendPieces(ctx, w, Body(id, n), n, takes, min(gaps, maxGaps, max(n-1, 0)))
}

// Drip is Send with a write for each byte. They come in bursts, PieceEvery apart: what counts small writes may count
// those that its own reader has not taken yet.
func Drip(ctx context.Context, w io.Writer, id string, n int64, takes time.Duration) (int64, error) {
	return sendPieces(ctx, single{w}, Body(id, n), n, takes, min(int64(takes/PieceEvery), max(n-1, 0)))
}

// single writes each byte by itself.
type single struct{ w io.Writer }

func (s single) Write(p []byte) (int, error) {
	for i := range p {
		if n, err := s.w.Write(p[i : i+1]); err != nil {
			return i + n, err
		}
	}
	return len(p), nil
}

// sendPieces writes n bytes of a body in pieces with so many gaps between them.
func sendPieces(ctx context.Context, w io.Writer, body io.Reader, n int64, takes time.Duration, gaps int64) (int64, error) {
	start := time.Now()
	var sent int64
	for i := int64(0); i <= gaps; i++ {
		if i > 0 {
			// From the start, so that lateness doesn't add up.
			due := start.Add(takes * time.Duration(i) / time.Duration(gaps))
			if err := until(ctx, due); err != nil {
				return sent, err
			}
		}
		end := n * (i + 1) / (gaps + 1)
		m, err := io.CopyN(w, body, end-sent)
		sent += m
		if err != nil {
			return sent, err
		}
		if f, ok := w.(interface{ Flush() }); ok {
			f.Flush()
		}
	}
	return sent, nil
}

// until waits for an instant, or for the end of ctx.
func until(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
