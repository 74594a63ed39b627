// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Why this client closes a connection: attribute why of timeline.FrameClose.
const (
	whyIdle     = "idle"           // it had been idle for as long as it may be
	whyStop     = "stop"           // the stream ends
	whyGoAway   = "goaway"         // a GOAWAY has come
	whyAnswered = "answered-close" // a reply said Connection: close, or a close frame came
	whyBroken   = "broken"         // the peer has ended it, or it failed an attempt
	whyCut      = "cut"            // to cut what is in it is what the stream does
)

// teller tells what comes from the peer of one connection besides answers, and
// how the connection ends.
type teller struct {
	emit   func(timeline.Record)
	stream flow.Stream
	conn   uint64

	mu   sync.Mutex
	told map[timeline.FrameKind]bool
	over bool // the last frame is told
}

// repeats are the kinds that a connection may have more than one of.
var repeats = map[timeline.FrameKind]bool{timeline.FrameGoAway: true, timeline.FrameReset: true, timeline.FramePing: true}

// tell tells a frame that was seen just now. attrs are names and values.
func (t *teller) tell(kind timeline.FrameKind, attrs ...string) {
	t.tellAt(timeline.Monotonic(), kind, attrs...)
}

func (t *teller) tellAt(at time.Duration, kind timeline.FrameKind, attrs ...string) {
	f := &timeline.Frame{At: at, Stream: t.stream, Conn: t.conn, Kind: kind}
	for i := 0; i < len(attrs); i += 2 {
		if f.Attrs == nil {
			f.Attrs = map[string]string{}
		}
		f.Attrs[attrs[i]] = attrs[i+1]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.told[kind] && !repeats[kind] {
		return
	}
	if t.told == nil {
		t.told = map[timeline.FrameKind]bool{}
	}
	t.told[kind] = true
	t.emit(timeline.Record{Frame: f})
}

// has says whether a frame of one of some kinds was told.
func (t *teller) has(kinds ...timeline.FrameKind) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range kinds {
		if t.told[k] {
			return true
		}
	}
	return false
}

// hush says that nothing is told from here on: the client closes.
func (t *teller) hush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}
