// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"log"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/control"
)

// patience is how long these tests wait for what takes an instant.
const patience = 10 * time.Second

// served is an agent's side of the control channel, in this process.
type served struct {
	*control.Server
	addr string
	cred control.Credentials
	// end stops it, as the end of its pod does.
	end func()
}

// serve begins one. What it can count is a witness's.
func serve(t *testing.T, counter control.Counter) served {
	t.Helper()
	authority, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Client()
	if err != nil {
		t.Fatal(err)
	}
	spool, err := control.NewSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	signaller, _ := counter.(control.Signaller)
	s := &control.Server{Role: "witness", Node: "n1", Pod: "p", Version: "v", Spool: spool, Counter: counter, Signaller: signaller, Log: log.New(t.Output(), "", 0)}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.Serve(ctx, l, server, 200*time.Millisecond) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		spool.Close()
	})
	t.Cleanup(end)
	return served{s, l.Addr().String(), client, end}
}

// follows is an agent that follows it, until the test ends. lost has why it was lost, if it was.
func follows(t *testing.T, s served, emit func(timeline.Record, time.Duration)) (a *agent, lost <-chan error) {
	t.Helper()
	why := make(chan error, 1)
	a, err := follow(t.Context(), "witness", s.addr, nil, s.cred, emit, func(err error) { why <- err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Detach)
	return a, why
}

// seen takes what is emitted.
type seen struct {
	mu  sync.Mutex
	all []timeline.Record
}

func (s *seen) Emit(r timeline.Record, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

func (s *seen) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.all {
		out = append(out, podOf(r))
	}
	return out
}

func about(uid string) timeline.Record {
	return timeline.Record{Event: &timeline.Event{Source: "test", Kind: timeline.ProcExit, Subject: uid}}
}

// What an agent recorded has arrived when it is caught up with; who leaves it has not lost it.
func TestFollow(t *testing.T) {
	s := serve(t, nil)
	var got seen
	a, lost := follows(t, s, got.Emit)
	want := []string{"a", "b", "c"}
	for _, uid := range want {
		s.Emit(about(uid))
	}
	if err := a.catchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := got.names(); !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	a.Detach()
	select {
	case err := <-lost:
		t.Errorf("it is lost, and was left: %v", err)
	default:
	}
}

// The end of an agent's history before that of the recording is told, and nobody waits for more
// of it.
func TestFollowLost(t *testing.T) {
	s := serve(t, nil)
	var got seen
	a, lost := follows(t, s, got.Emit)
	s.Emit(about("a"))
	if err := a.catchUp(t.Context()); err != nil { // it is followed by then
		t.Fatal(err)
	}
	s.end()
	select {
	case err := <-lost:
		if err == nil {
			t.Error("it is lost for no reason")
		}
	case <-time.After(patience):
		t.Fatal("nobody hears that it is lost")
	}
	began := time.Now()
	if err := a.catchUp(t.Context()); err == nil || !strings.Contains(err.Error(), "the tail of agent witness") || time.Since(began) > patience {
		t.Errorf("%v, after %s", err, time.Since(began))
	}
}

// An agent that is not there is an error that names it.
func TestFollowNobody(t *testing.T) {
	s := serve(t, nil)
	s.end()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	a, err := follow(ctx, "witness", s.addr, nil, s.cred, func(timeline.Record, time.Duration) {}, func(error) {})
	if err == nil || !strings.Contains(err.Error(), "the agent witness") {
		t.Errorf("%v, %v", a, err)
	}
}

// What a node's witness says of its node, or of itself, is everybody's.
func TestRouterOfANode(t *testing.T) {
	r := newRouter()
	var one, two seen
	r.own("a", &one)
	r.own("b", &two)
	for _, kind := range []timeline.EventKind{timeline.NodeStarved, timeline.WatchGap} {
		r.emit(timeline.Record{Event: &timeline.Event{Kind: kind, Subject: "witness"}}, 0)
	}
	r.emit(timeline.Record{Event: &timeline.Event{Kind: timeline.WatchGap, Subject: "b"}}, 0)
	if got := one.names(); !slices.Equal(got, []string{"witness", "witness"}) {
		t.Errorf("the first has %v", got)
	}
	if got := two.names(); !slices.Equal(got, []string{"witness", "witness", "b"}) {
		t.Errorf("the second has %v", got)
	}
}

// What shared agents tell goes to the recording that a pod belongs to: what came before the pod
// was known too, and once that recording has ended to nobody.
func TestRouter(t *testing.T) {
	r := newRouter()
	var one, two seen
	r.emit(about("a"), 0) // early
	r.emit(about("nobody's"), 0)
	r.own("a", &one)
	r.own("a", &one) // and what was early is not told again
	r.own("b", &two)
	r.own("c", &two)
	r.emit(about("b"), 0)
	r.emit(timeline.Record{Entry: &timeline.Entry{Pod: "a"}}, 0)
	if got := one.names(); !slices.Equal(got, []string{"a", "a"}) {
		t.Errorf("the first has %v", got)
	}
	if got := two.names(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the second has %v", got)
	}
	// Once to each, however many pods it has.
	r.all(about("all"), 0)
	if got := two.names(); !slices.Equal(got, []string{"b", "all"}) {
		t.Errorf("the second has %v", got)
	}
	r.disown(&two)
	r.emit(about("c"), 0)
	r.all(about("all"), 0)
	if got := two.names(); len(got) != 2 {
		t.Errorf("the second has ended, and has %v", got)
	}
	if got := one.names(); !slices.Equal(got, []string{"a", "a", "all", "all"}) {
		t.Errorf("the first has %v", got)
	}
	if got := r.pods(); len(got) != 3 || !got["a"] || !got["b"] || !got["c"] {
		t.Errorf("its pods: %v", got)
	}
	// A pod of an ended recording is not one that is still to be known.
	r.own("c", &one)
	if got := one.names(); len(got) != 4 {
		t.Errorf("what came for nobody was kept: %v", got)
	}
}

var errNoProcess = errors.New("no process of the pod")
