// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/work"
)

// webSocket makes a WebSocket of the connection, has messages echoed on it for as
// long as the operation takes, and closes it.
func (c *h1) webSocket(ctx context.Context, a *attempt) fate {
	u := &upgrade{c: c, a: a}
	ws, _, err := websocket.Dial(ctx, a.stream.form.url.String(), &websocket.DialOptions{ //nolint:bodyclose // the body is the connection, and that is the link's to close
		HTTPClient: &http.Client{Transport: u, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		HTTPHeader: http.Header{work.HeaderID: {a.ID}, "User-Agent": {userAgent}},
		// Else what is sent is not what is on the wire.
		CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		u.fail(err)
		return drop
	}
	a.Phase = timeline.PhaseBody
	if err := a.echoes(ctx, ws); err != nil {
		return c.cutShort(a, err)
	}
	// Nobody reads but Close: it would throw away an echo that is on its way. The
	// connection's end by this client is no error to it.
	err = cmp.Or(ws.Close(websocket.StatusNormalClosure, ""), ctx.Err())
	code := websocket.CloseStatus(err)
	switch {
	case err == nil:
		code = websocket.StatusNormalClosure
	case code == -1:
		return c.cutShort(a, err)
	}
	c.saidClose(code)
	a.Phase, a.Outcome, a.End = timeline.PhaseDone, timeline.OK, timeline.Monotonic()
	return closing
}

// saidClose tells of the peer's close frame.
func (c *h1) saidClose(code websocket.StatusCode) {
	c.ear.tell(timeline.FrameWSClose, "code", strconv.Itoa(int(code)))
}

// cutShort ends the attempt on a WebSocket that ended before its client was
// done. RFC 6455 section 7.1.5: "If _The WebSocket Connection is Closed_ and no
// Close control frame was received by the endpoint (such as could occur if the
// underlying transport connection is lost), _The WebSocket Connection Close
// Code_ is considered to be 1006."
func (c *h1) cutShort(a *attempt, err error) fate {
	var wrong wrongEcho
	switch code := websocket.CloseStatus(err); {
	case errors.As(err, &wrong):
		a.fail(timeline.Corrupt, err)
	case code != -1:
		c.saidClose(code)
		a.fail(timeline.CloseFrame, err)
		return closing
	case errors.Is(err, io.EOF):
		a.fail(timeline.Truncated, fmt.Errorf("the connection ended without a close frame: %w", io.ErrUnexpectedEOF))
	default:
		a.fail(outcome(err), err)
	}
	return drop
}

// message is the nth of a WebSocket.
func message(id string, n int) string { return id + " " + strconv.Itoa(n) }

// wrongEcho says what came instead of a message.
type wrongEcho string

func (e wrongEcho) Error() string { return string(e) }

// echoes sends the messages, each in its time, and takes them back, in their
// order. Somebody always reads, so that the end is heard when it comes.
func (a *attempt) echoes(ctx context.Context, ws *websocket.Conn) error {
	gaps := max(1, int(a.stream.Profile.Takes/work.MessageEvery))
	for i := range gaps + 1 {
		a.Want += int64(len(message(a.ID, i)))
	}
	pacing, cancel := context.WithCancel(ctx)
	var sent sync.WaitGroup
	defer sent.Wait()
	defer cancel()
	sent.Go(func() { a.sendMessages(ctx, pacing, ws, gaps) })
	for i := range gaps + 1 {
		_, got, err := ws.Read(ctx)
		if err == nil && string(got) != message(a.ID, i) {
			err = wrongEcho(fmt.Sprintf("%q came back instead of message %d", got, i))
		}
		if err != nil {
			// Whoever still writes is let go.
			_ = ws.CloseNow()
			return err
		}
		a.Got += int64(len(got))
	}
	return nil
}

// sendMessages sends one at once and one at the end of each of so many gaps, as
// long as pacing holds. (With that for a write's context, its end would close
// the connection.) An error is the reader's to hear: it has the last word on how
// the connection ended.
func (a *attempt) sendMessages(ctx, pacing context.Context, ws *websocket.Conn, gaps int) {
	start := time.Now()
	for i := range gaps + 1 {
		due := start.Add(a.stream.Profile.Takes * time.Duration(i) / time.Duration(gaps))
		if pass(pacing, time.Until(due)) != nil || ws.Write(ctx, websocket.MessageText, []byte(message(a.ID, i))) != nil {
			return
		}
	}
}

// upgrade is the transport of one WebSocket: it sends one request, over the
// connection that it has, and nothing twice.
type upgrade struct {
	c    *h1
	a    *attempt
	resp *http.Response
	err  error
}

// RoundTrip implements http.RoundTripper.
func (u *upgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &stamped{w: u.c.nc}
	if u.err = req.Write(w); u.err != nil {
		return nil, u.err
	}
	u.a.Sent, u.a.Phase = w.at, timeline.PhaseFirstByte
	r := u.c.await(get, nil)
	u.a.First = r.first
	if u.err = r.err; u.err != nil {
		return nil, u.err
	}
	u.resp = r.resp
	u.a.Status = u.resp.StatusCode
	u.a.answeredBy(u.resp.Header.Get(work.HeaderPod), u.resp.Header.Get(work.HeaderPeer))
	u.resp.Body = http.NoBody // a refusal's is of no interest
	if u.resp.StatusCode == http.StatusSwitchingProtocols {
		u.resp.Body = &upgraded{c: u.c}
	}
	return u.resp, nil
}

// fail ends the attempt, which has come to no WebSocket. A 101 that the client may not
// take has its status, and comes no further than the first byte.
func (u *upgrade) fail(err error) {
	switch {
	case u.err != nil:
		u.a.fail(outcome(u.err), u.err)
	case u.resp != nil && u.resp.StatusCode != http.StatusSwitchingProtocols:
		u.a.Phase = timeline.PhaseBody
		u.a.LastOnConn = u.resp.Close
		u.a.fail(timeline.Status, errors.New(u.resp.Status))
	default:
		u.a.fail(outcome(err), err)
	}
}

// upgraded is the connection as a WebSocket has it.
type upgraded struct {
	c    *h1
	over atomic.Bool // nothing more can be read
}

// Read implements net.Conn.
func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.c.br.Read(p)
	if err != nil {
		u.over.Store(true)
	}
	return n, err
}

// Write implements net.Conn.
func (u *upgraded) Write(p []byte) (int, error) { return u.c.nc.Write(p) }

// Close wakes whoever waits, and keeps the connection: how the peer ends it is
// still to be heard, by others where it was a close_notify.
func (u *upgraded) Close() error {
	past := time.Unix(1, 0)
	if u.over.Load() {
		return u.c.nc.SetWriteDeadline(past)
	}
	return u.c.nc.SetDeadline(past)
}
