// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// inHalves sends the first half of a header, or for a belated request nothing, and the
// rest when the operation's time is over. What comes between is heard at once, and ends the sending: a
// peer that has answered, or left, does not wait for the rest.
func (c *h1) inHalves(ctx context.Context, a *attempt) fate {
	head := a.header()
	half := 0
	if a.stream.Profile.Op == flow.HalfHeader {
		half = len(head) / 2
		if _, err := c.nc.Write(head[:half]); err != nil {
			a.fail(outcome(err), err)
			return drop
		}
	}
	c.listen()
	// Nobody is idle here: the attempt's own bound stays.
	deadline, _ := ctx.Deadline()
	_ = c.nc.SetDeadline(deadline)
	t := time.NewTimer(a.stream.Profile.Takes)
	defer t.Stop()
	select {
	case early := <-c.next:
		c.next <- early // for whoever reads the answer
		return c.answer(a, c.await(get, nil))
	case <-t.C:
	}
	c.asked.Store(true)
	w := &stamped{w: c.nc}
	if _, err := w.Write(head[half:]); err == nil {
		a.Sent = w.at
		a.Phase = timeline.PhaseFirstByte
	}
	// Where the write failed, the reader knows how the connection ended.
	return c.answer(a, c.await(get, nil))
}
