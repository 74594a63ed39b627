// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// memory is a ledger that keeps the samples.
type memory struct {
	mu    sync.Mutex
	seen  []timeline.Sample
	more  chan struct{} // closed at the fifth
	after bool          // one came when there were to be no more
	over  bool
}

func (m *memory) Append(r timeline.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Sample == nil {
		return nil
	}
	m.after = m.after || m.over
	if m.seen = append(m.seen, *r.Sample); len(m.seen) == 5 {
		close(m.more)
	}
	return nil
}

func (m *memory) Sync(context.Context) error { return nil }
func (m *memory) Close() error               { return nil }

// end says that no more are to come, and how many did.
func (m *memory) end() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	return len(m.seen)
}

// count says how many came, at any time.
func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seen)
}

// streams is the flag for a stream to an address.
func streams(addr string) string {
	return `[{"name": "outbound/http1/new/get", "profile": {"path": "outbound", "protocol": "http1", "conns": "new", "op": "get", "rate": 200},
		"addr": "` + addr + `", "tolerance": 1000000000, "timeout": 5000000000, "seed": 1}]`
}

// The calls begin at one signal and end at the other, and are the pod's own.
func TestCalls(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	kept := &memory{more: make(chan struct{})}
	c := &calls{what: streams(strings.TrimPrefix(server.URL, "http://"))}
	stop, err := c.ready("uid-a", kept, log.New(t.Output(), "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if n := kept.count(); n > 0 {
		t.Fatalf("%d calls before it was told to", n)
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	<-kept.more
	if err := c.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := kept.end()
	c.hear(syscall.SIGUSR2)
	c.hear(syscall.SIGUSR1) // too late
	if err := c.End(t.Context()); err != nil || len(kept.seen) != n || kept.after {
		t.Errorf("%d calls and then %d, %v", n, len(kept.seen), err)
	}
	if name := kept.seen[0].Stream.String(); name != "outbound/http1/new/get@uid-a" {
		t.Errorf("they are of %s", name)
	}
}

// calling are calls so many times a second of which one at least has been asked, and none is answered until answer is called.
func calling(t *testing.T, rate string) (c *calls, kept *memory, answer func()) {
	t.Helper()
	asked, answers := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once.Do(func() { close(asked) })
		<-answers
	}))
	t.Cleanup(server.Close)
	answer = sync.OnceFunc(func() { close(answers) })
	t.Cleanup(answer) // which the server's end waits for
	kept = &memory{more: make(chan struct{})}
	c = &calls{what: strings.Replace(streams(strings.TrimPrefix(server.URL, "http://")), `"rate": 200`, `"rate": `+rate, 1)}
	stop, err := c.ready("uid-a", kept, log.New(t.Output(), "", 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c.hear(syscall.SIGUSR1)
	<-asked
	return c, kept, answer
}

// The end waits for what is in flight.
func TestCallsEnd(t *testing.T) {
	c, kept, answer := calling(t, "200")
	over := make(chan error)
	go func() { over <- c.End(t.Context()) }()
	select {
	case err := <-over:
		t.Errorf("it ended under a call: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	answer()
	if err := <-over; err != nil || kept.end() == 0 {
		t.Errorf("%v, with %d calls", err, len(kept.seen))
	}
}

// What is not answered when its app has to end stands in the ledger as lost, where it was under way for longer than an answer takes.
func TestCallsGivenUp(t *testing.T) {
	for waits, lost := range map[time.Duration]bool{1500 * time.Millisecond: true, 0: false} {
		t.Run(waits.String(), func(t *testing.T) {
			t.Parallel()
			c, kept, _ := calling(t, "2")
			over, cancel := context.WithTimeout(t.Context(), waits)
			defer cancel()
			if err := c.End(over); err == nil {
				t.Error("all was answered")
			}
			switch n := kept.end(); {
			case n > 0 != lost:
				t.Errorf("%d calls in the ledger: %+v", n, kept.seen)
			case lost && kept.seen[0].Outcome != timeline.Timeout:
				t.Errorf("what was first is told as %s", kept.seen[0].Outcome)
			}
		})
	}
}

func TestReadCalls(t *testing.T) {
	good := streams("10.0.0.1:80")
	if _, err := readCalls(good, "uid-a"); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"none": "[]", "no JSON": "x", "more": good + good, "another path": strings.ReplaceAll(good, "outbound", "direct"),
		"a word too many": strings.Replace(good, `"seed"`, `"sead"`, 1),
	} {
		if _, err := readCalls(text, "uid-a"); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// An app that calls from its start on waits for no signal.
func TestCallsAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	kept := &memory{more: make(chan struct{})}
	c := &calls{what: streams(strings.TrimPrefix(server.URL, "http://")), atOnce: true}
	stop, err := c.ready("uid-a", kept, log.New(t.Output(), "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	<-kept.more
	c.hear(syscall.SIGUSR1) // which begins nothing more
	if err := c.End(t.Context()); err != nil {
		t.Fatal(err)
	}
}
