// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

var errBehindClose = errors.New("sent behind a request whose answer said that the connection ends, and not answered")

// ahead sends two requests at once. RFC 9112 section 9.3.2: "A client that supports
// persistent connections MAY "pipeline" its requests (i.e., send multiple requests
// without waiting for each response)." Where the first one's answer says close, the
// server has the time that it has to close in to answer the second one too.
func (c *h1) ahead(a *attempt, deadline time.Time) fate {
	b := &attempt{stream: a.stream, Sample: a.Sample}
	// No number of the schedule's: that one is the first request's.
	b.ID += "b"
	b.Nth, b.Dial = a.Nth+1, 0
	w := &stamped{w: c.nc}
	if _, err := w.Write(append(a.header(), b.header()...)); err != nil {
		a.fail(outcome(err), err)
		return drop
	}
	a.second = b
	a.Sent, b.Sent = w.at, w.at
	a.Phase, b.Phase = timeline.PhaseFirstByte, timeline.PhaseFirstByte
	c.answer(a, c.await(get, nil))
	if !a.LastOnConn {
		return c.answer(b, c.await(get, nil))
	}
	if most := time.Now().Add(lastWords); most.Before(deadline) {
		_ = c.nc.SetDeadline(most)
	}
	if r := c.await(get, nil); r.first > 0 {
		return c.answer(b, r)
	}
	b.fail(timeline.BehindClose, errBehindClose)
	return closing
}
