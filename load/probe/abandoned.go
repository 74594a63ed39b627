// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
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

// abandoned sends an upload, and cuts the connection by an RST in the middle.
func (c *h1) abandoned(ctx context.Context, a *attempt) fate {
	half, cancel := context.WithTimeout(ctx, a.stream.Profile.Takes)
	defer cancel()
	w := &stamped{w: c.nc}
	err := c.send(half, a, w, nil)
	a.Sent = w.at
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		// RFC 9293 section 3.9.1: an abort, which is what SO_LINGER of 0 makes of a close.
		if lingers, is := c.ear.wire.(interface{ SetLinger(sec int) error }); is {
			_ = lingers.SetLinger(0)
		}
		a.Outcome, a.Phase, a.End = timeline.OK, timeline.PhaseDone, timeline.Monotonic()
	case err == nil:
		a.fail(timeline.Malformed, fmt.Errorf("%d bytes went up at once", a.form().bytes))
	default:
		a.fail(outcome(err), err)
	}
	return drop
}
