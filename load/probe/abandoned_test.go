// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
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

// In a tunnel the app behind it sees the same, whether the client resets the stream or the tunnel ends under it, which is
// told.
func TestAbandonedInTunnels(t *testing.T) {
	for conns, told := range map[flow.Conns][]string{
		flow.Shared: {},
		flow.New:    {"close by=fin why=cut", "close by=close-notify why=cut", "close by=rst why=cut"},
	} {
		t.Run(string(conns), func(t *testing.T) {
			t.Parallel()
			ends := make(chan error, 3)
			app := accept(t, func(_ int, c *net.TCPConn) {
				_, err := io.Copy(io.Discard, c)
				ends <- err
			})
			m := newMesh(t, backend)
			to := m.stream(load.Profile{Flow: flow.Flow{Conns: conns, Op: flow.Abandoned, Takes: 30 * time.Millisecond}})
			to.Tunnel.To = app
			st, r := idleStream(t, to, 1)
			if s, shares := st.keeper.(*shared); shares {
				s.open = sharedConns - 1 // one is enough
			}
			for i := range int64(3) {
				st.attempt(timeline.Monotonic(), i)
			}
			for i, s := range r.all() {
				if s.Outcome != timeline.OK || s.Phase != timeline.PhaseDone || (s.Conn == 1) != (i == 0 || conns == flow.Shared) {
					t.Error(text(s))
				}
			}
			for range 3 {
				if err := <-ends; !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the app read %v", err)
				}
			}
			var got []string
			for n := range uint64(3) {
				got = append(got, r.told(n+1)...)
			}
			// The server may answer an end before the client has gone.
			got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "close ") })
			if !slices.Equal(got, told) {
				t.Errorf("told %q, want %q", got, told)
			}
		})
	}
}
