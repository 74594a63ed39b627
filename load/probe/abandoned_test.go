// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// The server sees an RST in the middle of a body, and the client says that this is as it should be.
func TestAbandoned(t *testing.T) {
	noLeaks(t)
	var mu sync.Mutex
	var ends []error
	addr := accept(t, func(_ int, c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		mu.Lock()
		defer mu.Unlock()
		ends = append(ends, err)
	})
	p := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Abandoned, Takes: 30 * time.Millisecond}, Rate: 50}
	for _, s := range record(t, testStream(addr, p), 5) {
		if s.Outcome != timeline.OK || s.Phase != timeline.PhaseDone || s.End-s.Start < p.Takes {
			t.Error(text(s))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, err := range ends {
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server read %v", err)
		}
	}
	if len(ends) < 4 { // that of the last may come later
		t.Errorf("%d ends", len(ends))
	}
}

// A server that ends it before is none that was to be cut.
func TestAbandonedByTheServer(t *testing.T) {
	noLeaks(t)
	addr := accept(t, func(_ int, c *net.TCPConn) { reset(c) })
	p := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Abandoned, Takes: 300 * time.Millisecond}, Rate: 20}
	for _, s := range record(t, testStream(addr, p), 3) {
		if s.Outcome != timeline.Reset {
			t.Error(text(s))
		}
	}
}
