// SPDX-License-Identifier: Apache-2.0

package hbone

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

// tunnel is one to an instance, as our own client saw it.
type tunnel struct {
	stream  flow.Stream
	number  uint64
	samples []timeline.Sample // of the connections in it
	frames  []timeline.Frame  // by time
}

func (k tunnel) String() string { return fmt.Sprintf("tunnel %d of %s", k.number, k.stream.Kind()) }

// direct says whether a sample is of a connection in a tunnel to an instance's own address.
func direct(s timeline.Sample, t assertions.Ending) bool {
	f := s.Stream.Flow()
	return f.Protocol.Tunnels() && f.Path == flow.Direct && s.Stream.Target() == t.UID
}

// tunnels are those to an instance, in the order of their first connections.
func tunnels(c assertions.Case, t assertions.Ending) []tunnel {
	type key struct {
		stream flow.Stream
		number uint64
	}
	at := map[key]int{}
	var out []tunnel
	for _, s := range c.Timeline.Samples {
		if s.Conn == 0 || !direct(s, t) {
			continue
		}
		k := key{s.Stream, s.Conn}
		i, there := at[k]
		if !there {
			i, at[k] = len(out), len(out)
			out = append(out, tunnel{stream: s.Stream, number: s.Conn})
		}
		out[i].samples = append(out[i].samples, s)
	}
	for _, f := range c.Timeline.Frames {
		if i, there := at[key{f.Stream, f.Conn}]; there {
			out[i].frames = append(out[i].frames, f)
		}
	}
	return out
}

// goAway is when the first GOAWAY came.
func (k tunnel) goAway() (time.Duration, bool) { return k.first(timeline.FrameGoAway) }

// named is when a GOAWAY said which stream is the last, and a time where none has said it by then.
func (k tunnel) named(atMost time.Duration) time.Duration {
	for _, f := range k.frames {
		if f.Kind == timeline.FrameGoAway && f.Attrs["last"] != leftOpen {
			return min(f.At, atMost)
		}
	}
	return atMost
}

// leftOpen is a GOAWAY's last stream that names none: 2^31-1.
var leftOpen = strconv.Itoa(math.MaxInt32)

// end is when the peer ended the tunnel; false where nobody did, or the client was first.
func (k tunnel) end() (time.Duration, bool) {
	end, ok := k.first(timeline.FrameCloseNotify, timeline.FrameFIN, timeline.FrameRST)
	closed, own := k.first(timeline.FrameClose)
	return end, ok && !(own && closed < end)
}

// left is when the client closed the tunnel: never, where it did not.
func (k tunnel) left() time.Duration {
	if at, ok := k.first(timeline.FrameClose); ok {
		return at
	}
	return math.MaxInt64
}

func (k tunnel) first(kinds ...timeline.FrameKind) (time.Duration, bool) {
	i := slices.IndexFunc(k.frames, func(f timeline.Frame) bool { return slices.Contains(kinds, f.Kind) })
	if i < 0 {
		return 0, false
	}
	return k.frames[i].At, true
}
