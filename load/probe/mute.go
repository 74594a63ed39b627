// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// mute is a connection on which the client says nothing: not even a TLS
// handshake is begun.
type mute struct {
	silent
	run func(func())
}

func newMute(s *stream, l *link) conn { return mute{silent{l.ear}, s.pumps.Go} }

// try is over as soon as the connection stands. What the peer says on it is of
// no interest, and how it ends is told.
func (c mute) try(_ context.Context, a *attempt) fate {
	c.ear.rest(c.run)
	a.Phase = timeline.PhaseDone
	a.Outcome = timeline.OK
	a.End = timeline.Monotonic()
	return keep
}
