// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// MaxInFlight is how much an agent's streams may have in flight together, so that its
// memory does: an attempt that waits takes 16 KB over HTTP/1.1, and up to 48 KB over
// HTTP/2 in TLS or with a delay (BenchmarkInFlight), and some more in the kernel. It is
// more than a system that answers nothing at all brings about at 600 requests/s.
const MaxInFlight = 8000

// Room bounds what streams have in flight together. A nil one bounds nothing.
type Room struct {
	size  int64
	taken atomic.Int64
}

// NewRoom makes room for so many attempts.
func NewRoom(size int) *Room { return &Room{size: int64(size)} }

// enter takes the place of one attempt, and says whether there was one.
func (r *Room) enter() bool {
	if r == nil || r.taken.Add(1) <= r.size {
		return true
	}
	r.taken.Add(-1)
	return false
}

// take takes a place, whether there is one or not: of what can't be left out.
func (r *Room) take() {
	if r != nil {
		r.taken.Add(1)
	}
}

// give gives a place back.
func (r *Room) give() {
	if r != nil {
		r.taken.Add(-1)
	}
}

// mostOf is how many attempts a stream may have in flight: twice what it has where the
// system answers nothing, and each attempt takes the whole of its budget. More comes of
// a generator only that does not get to end them.
func mostOf(rate float64, budget time.Duration) int64 {
	const some = 8 // of a stream that sends one in a while
	return 2*int64(math.Ceil(rate*budget.Seconds())) + some
}

// admit takes the place of one more attempt, or says why there is none.
func (s *stream) admit() error {
	// Nobody else adds to it.
	if n := s.inFlight.Load(); n >= s.most {
		return fmt.Errorf("not sent: %d requests of its stream are in flight", n)
	}
	if !s.room.enter() {
		return fmt.Errorf("not sent: %d requests of all streams are in flight", s.room.size)
	}
	s.inFlight.Add(1)
	return nil
}

// leaveOut records an attempt that is not begun.
func (s *stream) leaveOut(due time.Duration, seq int64, why error) {
	now := timeline.Monotonic()
	s.emit(timeline.Record{Sample: &timeline.Sample{
		Stream: s.Name, ID: s.prefix + strconv.FormatInt(seq, 10), Addr: s.dest,
		Due: due, Start: now, End: now,
		Outcome: timeline.Cancelled, Phase: timeline.PhaseDue, Err: why.Error(), Saturated: true,
	}})
}
