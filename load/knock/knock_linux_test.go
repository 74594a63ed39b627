// SPDX-License-Identifier: Apache-2.0

package knock_test

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/knock"
)

// patience bounds what is waited for. It costs nothing where all is well.
const patience = time.Minute

// told collects what is told.
type told struct {
	mu      sync.Mutex
	n       int
	failed  []string
	changed chan struct{}
}

func (t *told) emit(e timeline.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind == timeline.KnockFailed {
		t.failed = append(t.failed, e.Attrs["why"])
	} else {
		n, _ := strconv.Atoi(e.Attrs["n"])
		t.n += n
	}
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// await returns when what is told is so.
func (t *told) await(tb testing.TB, is func() bool) {
	tb.Helper()
	late := time.After(patience)
	for {
		t.mu.Lock()
		done := is()
		t.mu.Unlock()
		if done {
			return
		}
		select {
		case <-t.changed:
		case <-late:
			tb.Fatalf("%d were answered, and not %v", t.n, t.failed)
		}
	}
}

func here(do func() error) error { return do() }

// listen serves each connection of a listener.
func listen(t *testing.T, serve func(*net.TCPConn)) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
			_ = c.Close()
		}
	}()
	return l.(*net.TCPListener)
}

// Each knock is told, answered or not.
func TestKnocks(t *testing.T) {
	reset := func(c *net.TCPConn) { _ = c.SetLinger(0) }
	answer := func(c *net.TCPConn) {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			_, _ = c.Write([]byte("!"))
		}
	}
	for name, is := range map[string]struct {
		serve  func(*net.TCPConn)
		says   string
		failed string // what all are told to be; none: they are answered
	}{
		"answered":           {answer, "?", ""},
		"reset":              {reset, "?", "reset"},
		"ended, no answer":   {func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)) }, "?", "EOF"},
		"accepted by nobody": {nil, "?", "timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, is.serve)
			port := knock.Port{At: l.Addr().(*net.TCPAddr).AddrPort(), Within: here, Says: []byte(is.says)}
			wait := patience
			if is.serve == nil {
				none, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = none.Close() })
				port.At, wait = none.Addr().(*net.TCPAddr).AddrPort(), 50*time.Millisecond
			}
			got := told{changed: make(chan struct{}, 1)}
			k := knock.Begin(t.Context(), knock.Config{Ports: []knock.Port{port}, Every: time.Millisecond, Patience: wait, Emit: got.emit})
			got.await(t, func() bool { return got.n >= 20 || len(got.failed) >= 20 })
			if is.failed == "" { // and then nobody is there
				_ = l.Close()
				got.await(t, func() bool { return slices.Contains(got.failed, "connect: connection refused") })
			}
			if err := k.Stop(); err != nil {
				t.Error(err)
			}
			if is.failed == "" {
				if got.n < 20 {
					t.Errorf("%d were answered, and not %v", got.n, got.failed)
				}
			} else if got.n > 0 || !strings.Contains(got.failed[0], is.failed) {
				t.Errorf("%d were answered, and not %v", got.n, got.failed[0])
			}
		})
	}
}

// Who can't get to where it is done from says so.
func TestNowhere(t *testing.T) {
	why := errors.New("no such network")
	k := knock.Begin(t.Context(), knock.Config{Ports: []knock.Port{{Within: func(func() error) error { return why }}}, Every: time.Millisecond})
	if err := k.Stop(); !errors.Is(err, why) {
		t.Error(err)
	}
}

// A server of TLS 1.3 alone answers it.
func TestHello(t *testing.T) {
	hello, err := knock.Hello()
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan error, 1)
	go func() { done <- tls.Server(far, &tls.Config{MinVersion: tls.VersionTLS13}).Handshake() }()
	go func() { _, _ = near.Write(hello) }()
	b := make([]byte, 7)
	if n, err := near.Read(b); err != nil || n < 1 || b[0] != 21 { // an alert: RFC 8446 section 5.1
		t.Errorf("answered by %x, %v", b[:n], err)
	}
	_ = near.Close()
	if err := <-done; err == nil {
		t.Error("it took the hello")
	}
}
