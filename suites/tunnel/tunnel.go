// SPDX-License-Identifier: Apache-2.0

// Package tunnel is what our own client of tunnels saw of one, for the checks of the areas that are about
// tunnels.
package tunnel

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Tunnel is one to an instance, as our own client saw it.
type Tunnel struct {
	Stream  flow.Stream
	Number  uint64
	Samples []timeline.Sample // of the connections in it
	Frames  []timeline.Frame  // by time
}

func (k Tunnel) String() string { return fmt.Sprintf("tunnel %d of %s", k.Number, k.Stream.Kind()) }

// Direct says whether a sample is of a connection in a tunnel to an instance's own address.
func Direct(s timeline.Sample, t assertions.Ending) bool {
	return ours(s) && s.Stream.Target() == t.UID
}

// ours says whether a sample is of a connection in a tunnel of our own client's.
func ours(s timeline.Sample) bool {
	f := s.Stream.Flow()
	return f.Protocol.Tunnels() && f.Path == flow.Direct && f.Op != flow.Mute // which says nothing, and has no tunnel
}

// To are those to an instance, in the order of their first connections.
func To(c assertions.Case, t assertions.Ending) []Tunnel {
	return Of(c, func(uid string) bool { return uid == t.UID })
}

// Of are those to some instances, by their UIDs.
func Of(c assertions.Case, some func(uid string) bool) []Tunnel {
	at := map[timeline.Connection]int{}
	var out []Tunnel
	for _, s := range c.Timeline.Samples {
		if s.Conn == 0 || !ours(s) || !some(s.Stream.Target()) {
			continue
		}
		k := s.On()
		i, there := at[k]
		if !there {
			i, at[k] = len(out), len(out)
			out = append(out, Tunnel{Stream: s.Stream, Number: s.Conn})
		}
		out[i].Samples = append(out[i].Samples, s)
	}
	for _, f := range c.Timeline.Frames {
		if i, there := at[f.On()]; there {
			out[i].Frames = append(out[i].Frames, f)
		}
	}
	return out
}

// GoAway is when the first GOAWAY came.
func (k Tunnel) GoAway() (time.Duration, bool) { return k.first(timeline.FrameGoAway) }

// Named is when a GOAWAY said which stream is the last, and a time where none has said it by then.
func (k Tunnel) Named(atMost time.Duration) time.Duration {
	for _, f := range k.Frames {
		if f.Kind == timeline.FrameGoAway && f.Attrs["last"] != LeftOpen {
			return min(f.At, atMost)
		}
	}
	return atMost
}

// LeftOpen is a GOAWAY's last stream that names none: 2^31-1.
var LeftOpen = strconv.Itoa(math.MaxInt32)

// closings are how a peer ends a tunnel, what tells most of it first.
var closings = []timeline.FrameKind{timeline.FrameCloseNotify, timeline.FrameRST, timeline.FrameFIN}

// End is when the peer ended the tunnel; false where nobody did, or the client was first.
func (k Tunnel) End() (time.Duration, bool) {
	end, ok := k.first(closings...)
	closed, own := k.first(timeline.FrameClose)
	return end, ok && !(own && closed < end)
}

// Ended is how the peer ended the tunnel, by the last thing that it said: false where it did not.
func (k Tunnel) Ended() (timeline.Frame, bool) {
	for _, kind := range closings {
		if i := slices.IndexFunc(k.Frames, func(f timeline.Frame) bool { return f.Kind == kind }); i >= 0 {
			return k.Frames[i], true
		}
	}
	return timeline.Frame{}, false
}

// ToldBefore says whether its peer had told the client before an instant that the tunnel ends: for its age, say, and not for what
// begins at that instant. It is on its way out then, and tells nothing of that.
func (k Tunnel) ToldBefore(at time.Duration) bool {
	told, ok := k.GoAway()
	return ok && told < at
}

// Farewell is how its peer took leave, from an instant on and by another: what it had not said ("" for
// nothing), and when it had said all. Whose client ended the tunnel itself, as it may once it was told, has had
// all that it waits for: at no instant.
func (k Tunnel) Farewell(since, by time.Duration) (lacks string, said time.Duration) {
	told, ok := k.GoAway()
	end, over := k.Ended()
	switch {
	case !ok || told < since:
		return "had got no GOAWAY", 0
	case k.Left() < by && (!over || end.At > k.Left()):
		return "", 0
	case !over || end.Kind != timeline.FrameCloseNotify:
		return "had got a GOAWAY, and no close_notify,", 0
	}
	return "", max(told, end.At)
}

// Lacked adds that a tunnel lacked something of its peer's farewell at an instant: where the peer had ended it by then that is
// no matter of when, and where it stood the peer was late. target and format are as Tally.Late has them.
func (k Tunnel) Lacked(y *assertions.Tally, c assertions.Case, at time.Duration, target, format string, args ...any) {
	id := k.Samples[0].ID
	if end, over := k.End(); over && end < at {
		y.Against(at, target, id, format, args...)
		return
	}
	y.Late(c, at, target, id, format, args...)
}

// StoodAt says whether the tunnel stood at an instant: something had been answered in it by then, and neither
// side had ended it. One for a single connection is not kept, and nobody tells of its end.
func (k Tunnel) StoodAt(at time.Duration) bool {
	if k.Stream.Flow().Conns == flow.New && !k.Silent() {
		return false
	}
	answered := slices.ContainsFunc(k.Samples, func(s timeline.Sample) bool { return s.First > 0 && s.First < at })
	end, over := k.first(closings...)
	return answered && !(over && end < at) && k.Left() >= at
}

// Deserted says whether the client closed the tunnel before an instant, and before its peer had said anything
// of an end.
func (k Tunnel) Deserted(before time.Duration) bool {
	left := k.Left()
	said, any := k.first(append([]timeline.FrameKind{timeline.FrameGoAway}, closings...)...)
	return left < before && (!any || left < said)
}

// Silent says whether it is one on which nothing is said, once it stands.
func (k Tunnel) Silent() bool { return k.Stream.Flow().Op == flow.Idle }

// Left is when the client closed the tunnel: never, where it did not. One for a single connection it closes
// with that, and says nothing of it.
func (k Tunnel) Left() time.Duration {
	at, ok := k.first(timeline.FrameClose)
	if !ok {
		at = math.MaxInt64
	}
	if k.Stream.Flow().Conns != flow.New {
		return at
	}
	end := k.Samples[len(k.Samples)-1].End
	if k.Silent() {
		end += k.Stream.Flow().Takes
	}
	return min(at, end)
}

func (k Tunnel) first(kinds ...timeline.FrameKind) (time.Duration, bool) {
	i := slices.IndexFunc(k.Frames, func(f timeline.Frame) bool { return slices.Contains(kinds, f.Kind) })
	if i < 0 {
		return 0, false
	}
	return k.Frames[i].At, true
}
