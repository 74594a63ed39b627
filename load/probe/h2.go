// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// h2 speaks HTTP/2 through a ClientConn, which has no way to retry. What the peer
// really said is read from the frames on the wire: the errors of ClientConn don't
// tell it apart.
type h2 struct {
	nc  wire // of an ear, or in TLS over it
	tap *tap // on nc
	cc  *http2.ClientConn
	err error // of the preface
}

func newH2(nc wire, e *ear) *h2 {
	c := &h2{nc: nc, tap: newTap(nc, e)}
	t := &http2.Transport{DisableCompression: true}
	c.cc, c.err = t.NewClientConn(c.tap)
	return c
}

// drain has nothing to do, unless the ClientConn no longer reads.
func (c *h2) drain() bool {
	seen := c.tap.seen()
	return seen.goAway || seen.err != nil || !seen.left
}

// reserve takes the place of a stream, and says whether there was one.
func (c *h2) reserve() bool { return c.cc == nil || c.cc.ReserveNewRequest() }

func (c *h2) close() {
	if c.cc != nil {
		_ = c.cc.Close()
	}
	_ = c.nc.Close()
}

func (c *h2) try(ctx context.Context, a *attempt) fate {
	if c.err != nil {
		a.fail(outcome(c.err), c.err)
		return drop
	}
	var p passage
	defer c.tap.forget(&p)
	ctx = c.follow(ctx, &p)
	f := a.form()
	req := &http.Request{
		Method: f.method, URL: f.url, Host: f.url.Host,
		Header: http.Header{work.HeaderID: {a.ID}, "User-Agent": {userAgent}},
	}
	if feed := a.stream.client.feed; feed != nil {
		var body *upload
		ctx, body = feed(ctx, a, req)
		defer body.end()
	}
	resp, err := c.cc.RoundTrip(req.WithContext(ctx))
	now, _ := c.tap.of(&p)
	a.StreamID, a.Sent, a.First = now.id, now.sent, now.first
	if err != nil {
		return c.fail(ctx, a, err, &p)
	}
	if f.awaits {
		// The first frame was the 100, not the answer.
		a.First = timeline.Monotonic()
	}
	err = a.read(resp, false)
	_ = resp.Body.Close()
	if err != nil && a.Outcome == "" {
		return c.fail(ctx, a, err, &p)
	}
	now, seen := c.tap.of(&p)
	a.Sent, a.LastOnConn = now.sent, seen.goAway
	if err != nil || seen.over() {
		return drop
	}
	return keep
}

// follow has the tap see what becomes of a request's stream.
func (c *h2) follow(ctx context.Context, p *passage) context.Context {
	// Called for each field just before the HEADERS are written, and nobody else
	// writes meanwhile.
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { c.tap.begin(p) },
	})
}

// fail classifies an error by what was on the wire.
func (c *h2) fail(ctx context.Context, a *attempt, err error, of *passage) fate {
	p, seen := c.tap.of(of)
	gone := ctx.Err() != nil && errors.Is(err, ctx.Err())
	notSent := p.id == 0
	// Who shares a connection need not be the first on it that writes.
	if notSent && (a.Nth > 1 || seen.used) && !gone {
		return unsent
	}
	a.StreamID, a.LastOnConn = p.id, seen.goAway
	if a.Phase == timeline.PhaseWrite && a.Sent > 0 {
		a.Phase = timeline.PhaseFirstByte
	}
	var broken http2.ConnectionError
	switch {
	case gone:
		a.fail(outcome(err), err)
	case p.reset && p.code == http2.ErrCodeRefusedStream:
		a.fail(timeline.RefusedStream, err)
	case p.reset:
		a.fail(timeline.StreamReset, err)
	case seen.goAway && (notSent || p.id > seen.lastID):
		a.fail(timeline.GoAway, err)
	case errors.As(err, &broken):
		a.fail(timeline.Malformed, err)
	case errors.Is(seen.err, io.EOF) && a.First > 0:
		a.fail(timeline.Truncated, err)
	case seen.err != nil:
		a.fail(outcome(seen.err), seen.err)
	default:
		a.fail(outcome(err), err)
	}
	if p.reset && a.stream.Profile.Conns == flow.Shared && !seen.over() {
		return keep // it was one stream of many
	}
	return drop
}

// upload feeds the body of a request.
type upload struct {
	cancel context.CancelFunc
	body   *io.PipeReader
	done   sync.WaitGroup
}

// startUpload gives req a body that is sent in pieces, after 100 Continue if
// the stream is such.
func startUpload(ctx context.Context, a *attempt, req *http.Request) (context.Context, *upload) {
	f := &a.stream.form
	goOn := make(chan struct{})
	if f.awaits {
		req.Header.Set("Expect", "100-continue")
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			Got100Continue: sync.OnceFunc(func() { close(goOn) }),
		})
	} else {
		close(goOn)
	}
	u := startBody(ctx, req, func(sending context.Context, w io.Writer) error {
		select {
		case <-goOn:
		case <-sending.Done():
		}
		_, err := work.Send(sending, w, a.ID, f.bytes, f.paced)
		return err
	})
	req.ContentLength = f.bytes
	return ctx, u
}

// startBody gives req a body of unknown length that send writes.
func startBody(ctx context.Context, req *http.Request, send func(context.Context, io.Writer) error) *upload {
	r, w := io.Pipe()
	sending, cancel := context.WithCancel(ctx)
	u := &upload{cancel: cancel, body: r}
	req.Body, req.ContentLength = r, -1
	u.done.Go(func() { _ = w.CloseWithError(send(sending, w)) })
	return u
}

// end stops the sending, whose outcome is known.
func (u *upload) end() {
	u.cancel()
	_ = u.body.Close()
	u.done.Wait()
}
