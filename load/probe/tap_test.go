// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/frames"
)

// Each PING of the peer's is told once, when it is answered. What answers a PING of this
// side's is none.
func TestPings(t *testing.T) {
	var told []timeline.Frame
	tap := &tap{ear: &ear{teller: &teller{emit: func(r timeline.Record) { told = append(told, *r.Frame) }}}}
	ping := func(f http2.Flags) frames.Frame {
		return frames.Frame{FrameHeader: http2.FrameHeader{Type: http2.FramePing, Flags: f}}
	}
	asked, answered := ping(0), ping(http2.FlagPingAck)
	tap.written(asked)
	tap.received(answered)
	tap.received(asked)
	tap.received(asked)
	came := slices.Clone(tap.pings)
	if len(told) > 0 {
		t.Fatalf("told before it was answered: %v", told)
	}
	tap.written(answered)
	tap.written(answered)
	tap.written(answered) // nobody asked
	if len(told) != 2 {
		t.Fatalf("%d were told, want 2: %v", len(told), told)
	}
	for i, f := range told {
		took, err := time.ParseDuration(f.Attrs["answered"])
		if f.Kind != timeline.FramePing || err != nil || f.At-took != came[i] {
			t.Errorf("PING %d: %v, %v; it came at %v", i+1, f, err, came[i])
		}
	}
}
