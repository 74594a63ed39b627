// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

var errBehindClose = errors.New("sent behind a request whose answer said that the connection ends, and not answered")

// ahead sends two requests at once. RFC 9112 section 9.3.2: "A client that supports
// persistent connections MAY "pipeline" its requests (i.e., send multiple requests
// without waiting for each response)." Where the first one's answer says close, the
// server has the time that it has to close in to answer the second one too.
func (c *h1) ahead(ctx context.Context, a *attempt) fate {
	deadline, _ := ctx.Deadline()
	b := &attempt{stream: a.stream, page: a.page, Sample: a.Sample, other: a.stream.client.other != nil}
	// No number of the schedule's: that one is the first request's.
	b.ID += "b"
	b.Nth, b.Dial = a.Nth+1, 0
	w := &stamped{w: c.nc}
	if _, err := w.Write(append(a.header(), b.header()...)); err != nil {
		a.fail(outcome(err), err)
		return drop
	}
	a.second = b
	a.Sent, a.Phase = w.at, timeline.PhaseFirstByte
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan struct{})
	var unsent error // why the second one was not sent to its end
	if b.other {
		b.Phase = timeline.PhaseWrite
		go func() {
			defer close(sent)
			if unsent = c.body(ctx, b, w); unsent == nil {
				b.Sent, b.Phase = w.at, timeline.PhaseFirstByte
			}
		}()
	} else {
		b.Sent, b.Phase = a.Sent, a.Phase
		close(sent)
	}

	r := c.await(get, nil)
	if r.err != nil {
		stop()
		<-sent
		r.err = because(r.err, unsent)
	}
	c.answer(a, r)
	if !a.LastOnConn {
		<-sent
		r := c.await(get, nil)
		r.err = because(r.err, unsent)
		return c.answer(b, r)
	}
	stop()
	<-sent
	if most := time.Now().Add(lastWords); most.Before(deadline) {
		_ = c.nc.SetDeadline(most)
	}
	if r := c.await(get, nil); r.first > 0 {
		return c.answer(b, r)
	}
	b.fail(timeline.BehindClose, errBehindClose)
	return closing
}
