// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"

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
	read := func() []error {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ends)
	}
	gomega.NewWithT(t).Eventually(func() int { return len(read()) }).WithTimeout(patience).Should(gomega.BeNumerically(">=", 5))
	for _, err := range read() {
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server read %v", err)
		}
	}
}

// What is deferred begins so long behind its turn, with no connection before, and is late by its own begin only.
func TestDeferred(t *testing.T) {
	noLeaks(t)
	began := timeline.Monotonic()
	addr := accept(t, func(_ int, c *net.TCPConn) { reset(c) })
	p := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Deferred, Takes: 300 * time.Millisecond}, Rate: 50}
	for _, s := range record(t, testStream(addr, p), 3) {
		if s.Due < began+p.Takes || s.Start < s.Due || s.Outcome != timeline.Reset {
			t.Error(text(s))
		}
	}
}

// A server that ends it before is none that was to be cut.
func TestAbandonedByTheServer(t *testing.T) {
	noLeaks(t)
	addr := accept(t, func(_ int, c *net.TCPConn) { reset(c) })
	p := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Abandoned, Takes: 10 * time.Second}, Rate: 20}
	for _, s := range record(t, testStream(addr, p), 3) {
		if s.Outcome != timeline.Reset {
			t.Error(text(s))
		}
	}
}
