// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Frames are found in whatever pieces they come.
func TestFrames(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&b, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingEnablePush})
	_ = f.WriteSettingsAck()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: make([]byte, 100), EndStream: true, EndHeaders: true})
	_ = f.WriteData(3, false, make([]byte, 5000))
	_ = f.WriteRSTStream(3, http2.ErrCodeRefusedStream)
	_ = f.WriteGoAway(1<<31-1, http2.ErrCodeNo, []byte("some debugging data"))
	_ = f.WriteGoAway(7, http2.ErrCodeNo, nil)
	_ = f.WritePing(false, [8]byte{})
	_ = f.WriteRawFrame(http2.FrameGoAway, 0, 0, []byte{1, 2})
	_ = f.WriteData(5, true, nil)
	type seen struct {
		kind    http2.FrameType
		stream  uint32
		end     bool
		payload int
	}
	want := []seen{
		{http2.FrameSettings, 0, false, 0},
		{http2.FrameSettings, 0, true, 0}, // the bit is ACK here
		{http2.FrameHeaders, 3, true, 0},
		{http2.FrameData, 3, false, 0},
		{http2.FrameRSTStream, 3, false, 4},
		{http2.FrameGoAway, 0, false, 8},
		{http2.FrameGoAway, 0, false, 8},
		{http2.FramePing, 0, false, 0},
		{http2.FrameGoAway, 0, false, 2},
		{http2.FrameData, 5, true, 0},
	}
	for size := 1; size <= b.Len(); size++ {
		d := frames{skip: len(http2.ClientPreface)}
		var got []seen
		for p := b.Bytes(); len(p) > 0; {
			n := min(size, len(p))
			d.feed(p[:n], func(f frame) {
				got = append(got, seen{f.kind, f.stream, f.flags.Has(http2.FlagDataEndStream), len(f.payload)})
			})
			p = p[n:]
		}
		if len(got) != len(want) {
			t.Fatalf("in pieces of %d: %d frames, want %d", size, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("in pieces of %d: frame %d is %+v, want %+v", size, i, got[i], want[i])
			}
		}
	}
}

// Each PING of the peer's is told once, when it is answered. What answers a PING of this
// side's is none.
func TestPings(t *testing.T) {
	var told []timeline.Frame
	tap := &tap{ear: &ear{teller: &teller{emit: func(r timeline.Record) { told = append(told, *r.Frame) }}}}
	asked, answered := frame{kind: http2.FramePing}, frame{kind: http2.FramePing, flags: http2.FlagPingAck}
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
