// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
)

// standIn is a gateway in a process that stands for its pod, with a request in hand that its
// backend does not answer.
type standIn struct {
	*proc
	ledger string
	admin  string
	held   chan struct{} // closed: the backend answers
}

func standsIn(t *testing.T, least string, more ...string) *standIn {
	t.Helper()
	s := &standIn{held: make(chan struct{})}
	came := make(chan struct{}, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-s.held
	}))
	t.Cleanup(backend.Close)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.admin = free.Addr().String()
	free.Close()
	dir := t.TempDir()
	s.ledger = filepath.Join(dir, pod+".jsonl")
	s.proc = launch(t, binary(t), append([]string{
		"gateway", "--http1", "127.0.0.1:0", "--health", "127.0.0.1:0", "--admin", s.admin, "--backends", backend.Listener.Addr().String(),
		"--ledger", dir, "--min-drain", least, "--unready", "1ms", "--deadline", "1h", "--own-manager", filepath.Join(dir, "done"),
	}, more...)...)
	var addr []string
	for begin := time.Now(); addr == nil; addr = regexp.MustCompile(`http1 on (\S+)`).FindStringSubmatch(s.text()) {
		if time.Since(begin) > patience {
			t.Fatalf("it does not listen: %s", s.text())
		}
		<-time.After(time.Millisecond)
	}
	go func() {
		if resp, err := http.Get("http://" + addr[1]); err == nil {
			resp.Body.Close()
		}
	}()
	<-came
	t.Cleanup(func() {
		select {
		case <-s.held:
		default:
			close(s.held)
		}
	})
	return s
}

func (s *standIn) term(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// told waits until the ledger has an event.
func (s *standIn) told(t *testing.T, kind timeline.EventKind) {
	t.Helper()
	begin := time.Now()
	for said, _ := os.ReadFile(s.ledger); !bytes.Contains(said, []byte(fmt.Sprintf("%q", kind))); said, _ = os.ReadFile(s.ledger) {
		if time.Since(begin) > patience {
			t.Fatalf("no %s: %s: %s", kind, said, s.text())
		}
		<-time.After(5 * time.Millisecond)
	}
}

// stays fails where it has exited a while later.
func (s *standIn) stays(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.exited:
		t.Fatalf("it exited: %v: %s", err, s.text())
	case <-time.After(time.Second):
	}
}

// never is a minimum that no test sees the end of.
const never = "30m"

// Whoever leaves its end to a shutdown manager is ended by that: when its clients are gone,
// and not before its minimum.
func TestManaged(t *testing.T) {
	t.Parallel()
	s := standsIn(t, "100ms", "--managed")
	s.term(t)
	s.told(t, timeline.DrainListenerClosed)
	s.stays(t)
	close(s.held)
	if err := s.exit(t); err != nil {
		t.Errorf("%v: %s", err, s.text())
	}
	s.told(t, timeline.DrainEnd)
}

// The manager's mistakes are the end of a gateway that is whole.
func TestMistakesOfTheManager(t *testing.T) {
	t.Parallel()
	t.Run("the hook returns early", func(t *testing.T) {
		t.Parallel()
		s := standsIn(t, never, "--fault", string(shutdown.HookReturnsEarly))
		s.term(t)
		if err := s.exit(t); err != nil {
			t.Errorf("%v: %s", err, s.text())
		}
	})
	t.Run("the hook never returns", func(t *testing.T) {
		t.Parallel()
		s := standsIn(t, "100ms", "--fault", string(shutdown.HookNeverReturns))
		s.term(t)
		close(s.held)
		s.told(t, timeline.DrainEnd)
		s.stays(t)
	})
	t.Run("it ends before the drain", func(t *testing.T) {
		t.Parallel()
		s := standsIn(t, "100ms", "--fault", string(shutdown.HookEndsBeforeDrain))
		s.term(t)
		if err := s.exit(t); err != nil {
			t.Errorf("%v: %s", err, s.text())
		}
	})
	t.Run("it answers anybody", func(t *testing.T) {
		t.Parallel()
		s := standsIn(t, never, "--fault", string(shutdown.HookAnswersAnybody))
		_, port, err := net.SplitHostPort(s.admin)
		if err != nil {
			t.Fatal(err)
		}
		// Another pod is another address, as on the host.
		resp, err := http.Get("http://" + net.JoinHostPort("127.9.9.9", port) + "/drain")
		if err != nil {
			t.Fatalf("%v: %s", err, s.text())
		}
		resp.Body.Close()
		s.told(t, timeline.DrainStart)
	})
}
