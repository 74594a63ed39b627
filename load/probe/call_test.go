// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// callee answers calls as the echo server does.
func callee(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(work.HeaderPod, "pod-1")
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != work.CallType || r.Header.Get("Te") != "trailers" || r.Header.Get("Grpc-Timeout") == "" {
		http.Error(w, "no gRPC call", http.StatusUnsupportedMediaType)
		return
	}
	for {
		m, err := work.ReadMessage(r.Body)
		switch {
		case errors.Is(err, io.EOF):
			w.Header().Set(http.TrailerPrefix+work.HeaderGRPC, work.CallOK)
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		case r.URL.Path == work.CallPath+work.ServerMethod:
			_, err = work.SendMessages(r.Context(), flushing{w}, m.ID, m.Count, m.Takes)
		default:
			_, err = w.Write(m.Encode())
		}
		if err != nil {
			return
		}
	}
}

// Every call against a healthy server.
func TestHealthyCalls(t *testing.T) {
	noLeaks(t)
	for _, proto := range []flow.Protocol{flow.H2C, flow.H2} {
		for _, conns := range flow.Unary.Conns() {
			for op := range methods {
				p := load.Profile{Flow: flow.Flow{Protocol: proto, Conns: conns, Op: op}}
				if op != flow.Unary {
					p.Takes = 250 * time.Millisecond
				}
				t.Run(strings.Join([]string{string(proto), string(conns), string(op)}, "/"), func(t *testing.T) {
					t.Parallel()
					addr, _ := serve(t, proto, callee)
					samples := recordUntil(t, testStream(addr, p), func(all []timeline.Sample) bool {
						return len(all) >= 20 && (conns == flow.New || slices.ContainsFunc(all, func(s timeline.Sample) bool { return s.Nth > 1 }))
					})
					want := int64(2)
					if op == flow.Unary {
						want = 1
					}
					for _, s := range samples {
						if s.Outcome != timeline.OK || s.Phase != timeline.PhaseDone || s.Err != "" || s.GRPC != "0" || s.Status != 200 {
							t.Fatalf("not ok: %s", text(s))
						}
						if s.Got != want || s.Want != want || s.Server != "pod-1" || s.Conn == 0 || s.LastOnConn || s.Saturated {
							t.Errorf("wrong: %s", text(s))
						}
						// A call may be answered while it is sent.
						if s.Sent < s.Start || s.First < s.Start || s.End < s.First || s.End < s.Sent {
							t.Errorf("times: %s", text(s))
						}
						if s.End-s.Start < p.Takes {
							t.Errorf("took %v: %s", s.End-s.Start, text(s))
						}
					}
				})
			}
		}
	}
}

// replied writes the header of a reply and some messages of it, by their
// numbers.
func (p *peer) replied(stream uint32, id string, numbers ...uint32) {
	p.header(stream, 200, -1, false)
	for _, n := range numbers {
		body := work.Body(id, int64(n)*work.PieceBytes)
		m := work.Message{Number: n, ID: id, Piece: make([]byte, work.PieceBytes)}
		for range n {
			_, _ = io.ReadFull(body, m.Piece)
		}
		_ = p.WriteData(stream, false, m.Encode())
	}
}

// asked reads to the end of a request.
func (p *peer) asked() {
	for {
		f, err := p.ReadFrame()
		if d, ok := f.(*http2.DataFrame); err != nil || ok && d.StreamEnded() {
			return
		}
	}
}

func TestCallOutcomes(t *testing.T) {
	unary := load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Op: flow.Unary}}
	stream := load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Op: flow.ServerStream, Takes: 400 * time.Millisecond}} // of three
	// Its end never comes: it is cut before.
	long := load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Op: flow.Bidi, Takes: patience}}
	for name, c := range map[string]struct {
		p    load.Profile
		want want
		grpc string
		// serve handles one call on stream s; the connection is closed when it
		// returns.
		serve func(p *peer, s uint32, id string)
	}{
		"whole": {stream, want{timeline.OK, timeline.PhaseDone, 200, 3, false}, "0",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1, 2, 3); p.trailers(s, "0"); p.rest() }},
		"a gap": {stream, want{timeline.Corrupt, timeline.PhaseDone, 200, 2, false}, "0",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1, 3); p.trailers(s, "0"); p.rest() }},
		"twice": {stream, want{timeline.Corrupt, timeline.PhaseDone, 200, 4, false}, "0",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1, 1, 2, 3); p.trailers(s, "0"); p.rest() }},
		"another's": {unary, want{timeline.Corrupt, timeline.PhaseDone, 200, 1, false}, "0",
			func(p *peer, s uint32, id string) { p.replied(s, id+"x", 1); p.trailers(s, "0"); p.rest() }},
		"too many": {unary, want{timeline.Corrupt, timeline.PhaseDone, 200, 2, false}, "0",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1, 2); p.trailers(s, "0"); p.rest() }},
		"OK, and the last are missing": {stream, want{timeline.Corrupt, timeline.PhaseDone, 200, 2, false}, "0",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1, 2); p.trailers(s, "0"); p.rest() }},
		"no messages": {unary, want{timeline.Corrupt, timeline.PhaseDone, 200, 0, false}, "0",
			func(p *peer, s uint32, id string) {
				p.header(s, 200, -1, false)
				_ = p.WriteData(s, false, []byte("<html>"))
				p.trailers(s, "0")
				p.rest()
			}},
		"no status": {stream, want{timeline.Truncated, timeline.PhaseDone, 200, 3, false}, "",
			func(p *peer, s uint32, id string) {
				p.replied(s, id, 1, 2, 3)
				_ = p.WriteData(s, true, nil)
				p.rest()
			}},
		"no status, and within a message": {stream, want{timeline.Truncated, timeline.PhaseDone, 200, 1, false}, "",
			func(p *peer, s uint32, id string) {
				p.replied(s, id, 1)
				_ = p.WriteData(s, true, []byte{0, 0})
				p.rest()
			}},
		"a gap, and then a reset": {long, want{timeline.Corrupt, timeline.PhaseBody, 200, 2, false}, "",
			func(p *peer, s uint32, id string) {
				p.replied(s, id, 1, 3)
				_ = p.WriteRSTStream(s, http2.ErrCodeCancel)
				p.rest()
			}},
		"UNAVAILABLE": {stream, want{timeline.Status, timeline.PhaseDone, 200, 1, false}, "14",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1); p.trailers(s, "14"); p.rest() }},
		"UNAVAILABLE behind a gap": {stream, want{timeline.Corrupt, timeline.PhaseDone, 200, 1, false}, "14",
			func(p *peer, s uint32, id string) { p.replied(s, id, 2); p.trailers(s, "14"); p.rest() }},
		"trailers before the client's end": {long, want{timeline.Status, timeline.PhaseDone, 200, 0, false}, "14",
			func(p *peer, s uint32, _ string) { p.header(s, 200, -1, false); p.trailers(s, "14"); p.rest() }},
		"an HTTP status": {unary, want{timeline.Status, timeline.PhaseDone, 503, 0, false}, "",
			func(p *peer, s uint32, _ string) { p.header(s, 503, 0, true); p.rest() }},
		"refused": {unary, want{timeline.RefusedStream, timeline.PhaseFirstByte, 0, 0, false}, "",
			func(p *peer, s uint32, _ string) {
				p.asked()
				_ = p.WriteRSTStream(s, http2.ErrCodeRefusedStream)
				p.rest()
			}},
		"reset": {long, want{timeline.StreamReset, timeline.PhaseBody, 200, 1, false}, "",
			func(p *peer, s uint32, id string) {
				p.replied(s, id, 1)
				p.settled()
				_ = p.WriteRSTStream(s, http2.ErrCodeCancel)
				p.rest()
			}},
		"goaway below the stream": {long, want{timeline.GoAway, timeline.PhaseWrite, 0, 0, true}, "",
			func(p *peer, s uint32, _ string) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.rest() }},
		"fin": {stream, want{timeline.Truncated, timeline.PhaseBody, 200, 1, false}, "",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1); p.fin() }},
		"stalled": {stream, want{timeline.Timeout, timeline.PhaseBody, 200, 1, false}, "",
			func(p *peer, s uint32, id string) { p.replied(s, id, 1); p.rest() }},
	} {
		for _, carried := range carriers {
			t.Run(name+"/"+carried.name, func(t *testing.T) {
				for _, x := range noRetry(t, c.p, carried, c.want, framed(c.serve)) {
					if x.GRPC != c.grpc {
						t.Errorf("grpc-status %q, want %q: %s", x.GRPC, c.grpc, text(x))
					}
				}
			})
		}
	}
}

// Any answer of discovery, or of a CA, is one that says how the call ended, but that there is nobody to answer.
func TestDiscover(t *testing.T) {
	noLeaks(t)
	for op, of := range map[flow.Op]struct {
		path  string
		bytes int
	}{flow.Discover: {discovery, 0}, flow.Certify: {certificate, 5}} {
		t.Run(string(op), func(t *testing.T) { answersAtAll(t, op, of.path, of.bytes) })
	}
}

func answersAtAll(t *testing.T, op flow.Op, path string, bytes int) {
	p := load.Profile{Flow: flow.Flow{Protocol: flow.XDS, Conns: flow.New, Op: op}}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		want   want
		grpc   string
	}{
		"OK":              {inTrailers("0"), want{timeline.OK, timeline.PhaseDone, 200, 0, false}, ""},
		"UNIMPLEMENTED":   {inHeader("12"), want{timeline.OK, timeline.PhaseDone, 200, 0, false}, ""},
		"UNAUTHENTICATED": {inHeader("16"), want{timeline.OK, timeline.PhaseDone, 200, 0, false}, ""},
		"UNAVAILABLE":     {inHeader("14"), want{timeline.Status, timeline.PhaseDone, 200, 0, false}, "14"},
		"no status":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, want{timeline.Truncated, timeline.PhaseDone, 200, 0, false}, ""},
		"no gRPC":         {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, want{timeline.Status, timeline.PhaseDone, 503, 0, false}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			addr, opened := serve(t, flow.XDS, func(w http.ResponseWriter, r *http.Request) {
				asked, err := io.ReadAll(r.Body)
				if err != nil || len(asked) != bytes || r.Method != http.MethodPost || r.URL.Path != path || r.Header.Get("Content-Type") != work.CallType {
					t.Errorf("%s %s with %d bytes, %v: %v", r.Method, r.URL, len(asked), err, r.Header)
				}
				c.answer(w)
			})
			samples := record(t, testStream(addr, p), 3)
			for _, s := range samples {
				c.want.check(t, s)
				if s.GRPC != c.grpc || s.Nth != 1 {
					t.Errorf("grpc-status %q, want %q: %s", s.GRPC, c.grpc, text(s))
				}
			}
			if n := int(opened.Load()); n < len(samples) {
				t.Errorf("%d connections for %d calls", n, len(samples))
			}
		})
	}
}

// inHeader is an answer that has its status in its header, and inTrailers one that has it behind that.
func inHeader(status string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.Header().Set(work.HeaderGRPC, status) }
}

func inTrailers(status string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusOK)
		w.Header().Set(http.TrailerPrefix+work.HeaderGRPC, status)
	}
}
