// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/http"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/work"
)

// askAbandoned asks as an upload does of twice the length in time: half of it is sent.
func askAbandoned(f *form, p load.Profile) {
	f.method, f.bytes, f.paced = http.MethodPost, work.SlowBytes, 2*p.Takes
	f.job(work.Job{Takes: 2 * p.Takes})
}

// abandoned sends the first half of an upload, and cuts the connection by an RST. It is the half by
// its bytes: one by the clock is all of it where this process stands still for long.
func (c *h1) abandoned(ctx context.Context, a *attempt) fate {
	w := &stamped{w: c.nc}
	_, err := w.Write(a.header())
	if err == nil {
		_, err = work.Send(ctx, w, a.ID, a.form().bytes/2, a.form().paced/2)
	}
	a.Sent = w.at
	if err != nil {
		a.fail(outcome(err), err)
		return drop
	}
	// RFC 9293 section 3.9.1: an abort, which is what SO_LINGER of 0 makes of a close.
	if lingers, is := c.ear.wire.(interface{ SetLinger(sec int) error }); is {
		_ = lingers.SetLinger(0)
	}
	a.Outcome, a.Phase, a.End = timeline.OK, timeline.PhaseDone, timeline.Monotonic()
	return drop
}
