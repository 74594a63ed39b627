// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// patience bounds what is waited for. It costs nothing where all is well, and a
// machine may stand still for seconds.
const patience = time.Minute

func leakCheck(t *testing.T) {
	t.Helper()
	before := gleak.Goroutines()
	t.Cleanup(func() {
		gomega.NewWithT(t).Eventually(gleak.Goroutines).WithTimeout(patience).ShouldNot(gleak.HaveLeaked(before))
	})
}

// generator's streams run until they are stopped, and then until they are let go.
type generator struct {
	mu      sync.Mutex
	started []load.Stream
	handles map[flow.Stream]*handle
}

type handle struct {
	emit func(timeline.Record)
	stop chan struct{}
	once sync.Once
	done chan struct{}
}

func (h *handle) Stop()                 { h.once.Do(func() { close(h.stop) }) }
func (h *handle) Done() <-chan struct{} { return h.done }

func (g *generator) Start(ctx context.Context, s load.Stream, emit func(timeline.Record)) (load.Handle, error) {
	if s.Addr == "bad" {
		return nil, errors.New("address \"bad\"")
	}
	h := &handle{emit: emit, stop: make(chan struct{}), done: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handles[s.Name] = h
	g.started = append(g.started, s)
	context.AfterFunc(ctx, func() { g.finish(s.Name) })
	return h, nil
}

func (g *generator) finish(name flow.Stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.handles[name]
	select {
	case <-h.done:
	default:
		close(h.done)
	}
}

// presser's long ones run until they are stopped, and have their summary when they
// are let go.
type presser struct {
	stopped chan string // why
	let     chan struct{}
}

func (x presser) Press(ctx context.Context, p control.Pressure) (timeline.Event, error) {
	if p.QPS == 13 {
		return timeline.Event{}, errors.New("no luck")
	}
	if p.Name == "long" {
		<-ctx.Done()
		why := context.Cause(ctx).Error()
		x.stopped <- why
		<-x.let
		return timeline.Event{Kind: timeline.Pressure, Name: p.Name, Attrs: map[string]string{"stopped": why}}, nil
	}
	return timeline.Event{Kind: timeline.Pressure, Attrs: map[string]string{"requests": "7"}}, nil
}

type signaller struct{}

func (signaller) Signal(_ context.Context, s control.Signal) ([]int, error) {
	if s.Pod == "none" {
		return nil, fmt.Errorf("pod none: %w", fs.ErrNotExist)
	}
	return []int{42}, nil
}

type agent struct {
	*control.Server
	addr      string
	authority *control.Authority
	client    control.Credentials
	gen       *generator
	press     presser
	end       func()
}

func start(t *testing.T) *agent {
	t.Helper()
	leakCheck(t)
	return another(t)
}

// another is one more agent in a test that checks for leaks already.
func another(t *testing.T) *agent {
	t.Helper()
	a, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := a.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	spool, err := control.NewSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	gen := &generator{handles: map[flow.Stream]*handle{}}
	press := presser{make(chan string, 10), make(chan struct{})}
	s := &control.Server{Role: "probe", Node: "n", Pod: "p", Version: "v", Spool: spool, Generator: gen, Presser: press, Signaller: signaller{}, Log: log.New(t.Output(), "", 0)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l, server, 300*time.Millisecond) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		spool.Close()
	})
	t.Cleanup(end)
	return &agent{s, l.Addr().String(), a, client, gen, press, end}
}

func dial(t *testing.T, a *agent, d control.DialFunc) *control.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := control.Dial(ctx, a.addr, d, a.client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func event(i int) timeline.Record {
	return timeline.Record{Event: &timeline.Event{At: time.Duration(i), Source: "test", Kind: timeline.Marker, Name: strings.Repeat("x", i%200)}}
}

// breaking cuts its connection after n bytes, wherever that is in a line.
type breaking struct {
	net.Conn
	left int
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.Conn.Close()
		return 0, errors.New("cut by the test")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func TestFollowLosesAndRepeatsNothing(t *testing.T) {
	a := start(t)
	var dials atomic.Int64
	c := dial(t, a, func(ctx context.Context) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.addr)
		// The handshake and the header need some 1.5 kB.
		return &breaking{conn, 4000 + 777*int(dials.Add(1))}, err
	})
	const n = 2000
	go func() {
		for i := 1; i <= n; i++ {
			a.Emit(event(i))
			if i%100 == 0 {
				<-time.After(5 * time.Millisecond)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience) // many handshakes
	defer cancel()
	next := 1
	err := c.Follow(ctx, func(r timeline.Record) error {
		if int(r.Event.At) != next {
			return fmt.Errorf("got %d, want %d", r.Event.At, next)
		}
		next++
		if next > n {
			cancel()
		}
		return nil
	})
	if err != nil || next != n+1 {
		t.Errorf("%v after %d records", err, next-1)
	}
	if dials.Load() < 10 {
		t.Errorf("only %d connections: the test broke too few", dials.Load())
	}
	t.Logf("%d connections", dials.Load())
}

func TestFollowEnds(t *testing.T) {
	a := start(t)
	c := dial(t, a, nil)
	a.Emit(event(1))
	got := make(chan int, 10)
	done := make(chan error, 1)
	go func() {
		done <- c.Follow(context.Background(), func(r timeline.Record) error { got <- int(r.Event.At); return nil })
	}()
	if <-got != 1 {
		t.Error("not the first record")
	}
	a.Emit(event(2))
	if err := c.CatchUp(t.Context()); err != nil {
		t.Error(err)
	}
	if len(got) != 1 {
		t.Errorf("CatchUp returned with %d records", len(got))
	}
	a.end()
	if err := <-done; err != nil {
		t.Errorf("an agent that left in order: %v", err)
	}
	why := errors.New("mine")
	b := another(t)
	cb := dial(t, b, nil)
	b.Emit(event(1))
	if err := cb.Follow(t.Context(), func(timeline.Record) error { return why }); !errors.Is(err, why) {
		t.Error(err)
	}
	if cb.Taken() != 0 {
		t.Error("a record that fn refused counts as taken")
	}
}

func TestLostAgent(t *testing.T) {
	a := start(t)
	var cut atomic.Bool
	c := dial(t, a, func(ctx context.Context) (net.Conn, error) {
		if cut.Load() {
			return nil, errors.New("cut by the test")
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.addr)
		return &breaking{conn, 5000}, err
	})
	c.Patience = 500 * time.Millisecond
	cut.Store(true)
	for i := range 100 {
		a.Emit(event(i))
	}
	if err := c.Follow(t.Context(), func(timeline.Record) error { return nil }); err == nil || !strings.Contains(err.Error(), "cut by the test") {
		t.Error(err)
	}
}

// A restarted agent has another history: what was not fetched is lost, and said.
func TestRestartedAgent(t *testing.T) {
	a := start(t)
	b := another(t)
	first := true
	c := dial(t, a, func(ctx context.Context) (net.Conn, error) {
		addr := b.addr
		if first {
			addr, first = a.addr, false
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	})
	c.Close() // so that it dials again
	// b has another authority: the run's certificates don't fit.
	if err := c.Follow(t.Context(), func(timeline.Record) error { return nil }); err == nil {
		t.Error("another agent's history was taken")
	}
}

func TestSpoolHasAName(t *testing.T) {
	a := start(t)
	config, err := a.client.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	h := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	for query, want := range map[string]int{"offset=0&spool=OTHER": 410, "offset=1": 400, "offset=-1": 400, "": 400} {
		resp, err := h.Get("https://" + a.addr + "/v1/records?" + query)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: %s, want %d", query, resp.Status, want)
		}
	}
}

func TestStrangersGetNothing(t *testing.T) {
	a := start(t)
	other, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := other.Client()
	if err != nil {
		t.Fatal(err)
	}
	right, err := a.client.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	wrongTLS, err := wrong.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	agentsOwn, err := a.authority.Server()
	if err != nil {
		t.Fatal(err)
	}
	agentTLS, err := agentsOwn.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"no certificate":      {RootCAs: right.RootCAs, ServerName: control.ServerName},
		"another authority's": {RootCAs: right.RootCAs, ServerName: control.ServerName, Certificates: wrongTLS.Certificates},
		"an agent's own":      {RootCAs: right.RootCAs, ServerName: control.ServerName, Certificates: agentTLS.Certificates},
		"TLS 1.2":             {RootCAs: right.RootCAs, ServerName: control.ServerName, Certificates: right.Certificates, MaxVersion: tls.VersionTLS12},
	} {
		for _, path := range []string{"/v1/hello", "/v1/records?offset=0", "/v1/streams"} {
			h := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: patience}
			if resp, err := h.Get("https://" + a.addr + path); err == nil {
				resp.Body.Close()
				t.Errorf("%s got %s from %s", name, resp.Status, path)
			}
		}
	}
	// And nobody speaks in plaintext.
	if resp, err := http.Get("http://" + a.addr + "/v1/hello"); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("plaintext was answered")
		}
	}
	// The other way round: a client does not speak to a stranger's agent.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := control.Dial(ctx, a.addr, nil, wrong); err == nil || ctx.Err() != nil {
		t.Errorf("%v, tried up to the end: %v", err, ctx.Err())
	}
	// A client whose certificate alone is wrong is told at once, too.
	mixed := wrong
	mixed.CA = a.client.CA
	if _, err := control.Dial(ctx, a.addr, nil, mixed); err == nil || ctx.Err() != nil {
		t.Errorf("%v, tried up to the end: %v", err, ctx.Err())
	}
}

func TestStreams(t *testing.T) {
	a := start(t)
	c := dial(t, a, nil)
	ctx := t.Context()
	s := func(name string) load.Stream { return load.Stream{Name: flow.Named(name), Addr: "127.0.0.1:1"} }
	if err := c.Start(ctx, s("one"), s("two")); err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]load.Stream{
		"409": {s("three"), s("one")},
		"400": {s("three"), s("three")},
		"bad": {s("four"), {Name: flow.Named("five"), Addr: "bad"}},
	} {
		if err := c.Start(ctx, bad...); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	a.gen.finish(flow.Named("four"))
	a.gen.handles[flow.Named("one")].emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named("one"), ID: "1"}})
	if err := c.Stop(ctx, flow.Named("one"), flow.Named("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	all, err := c.Streams(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []control.Status{{Name: "four", Done: true}, {Name: "one", Samples: 1}, {Name: "two", Pacing: true}}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v", all, want)
	}
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
	// It has been answered once when it asks again, and then its time is over.
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := 0
	if err := c.WaitIdle(httptrace.WithClientTrace(short, &httptrace.ClientTrace{GetConn: func(string) {
		if asked++; asked == 2 {
			cancel()
		}
	}})); err == nil || !strings.Contains(err.Error(), `"one" "two"`) {
		t.Error(err)
	}
	a.gen.finish(flow.Named("one"))
	a.gen.finish(flow.Named("two"))
	if err := c.WaitIdle(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Start(ctx, s("one")); err != nil {
		t.Errorf("a done stream's name is not free: %v", err)
	}
	h, err := c.Hello(ctx)
	if err != nil || h.Role != "probe" || h.Node != "n" || h.Pod != "p" || h.Version != "v" {
		t.Errorf("%+v, %v", h, err)
	}
	if offset, unsure := c.Offset(); offset != 0 || unsure != 0 {
		t.Errorf("the same boot has offset %v ± %v", offset, unsure)
	}
}

// A stream arrives as it was sent, each field of it.
func TestStreamsArriveWhole(t *testing.T) {
	a := start(t)
	c := dial(t, a, nil)
	sent := load.Stream{
		Name: flow.Named("headless/dns/new/lookup"), Addr: "10.96.0.10:53", Query: "headless.ns.svc.cluster.local.", IPv6: true,
		Profile: load.Profile{
			Flow: flow.Flow{Path: flow.Headless, Protocol: flow.DNS, Conns: flow.New, Op: flow.Lookup, Takes: 3 * time.Second, Delay: 20 * time.Millisecond}, Rate: 12.5,
		},
		Tolerance: time.Millisecond, Timeout: time.Second, Seed: 1<<64 - 1, CA: "PEM", ServerName: "a.test", From: "127.9.8.0/28",
		Pages:  []load.Page{{Path: "/", Status: 200}, {Path: "/new", Status: 201}},
		Tunnel: load.Tunnel{To: "10.0.0.1:80", Cert: "PEM", Key: "PEM"},
	}
	// So that a field that is added is not forgotten here.
	for _, v := range []reflect.Value{reflect.ValueOf(sent), reflect.ValueOf(sent.Profile), reflect.ValueOf(sent.Profile.Flow), reflect.ValueOf(sent.Tunnel)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s.%s is not tried", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	if err := c.Start(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	a.gen.mu.Lock()
	defer a.gen.mu.Unlock()
	if len(a.gen.started) != 1 || !reflect.DeepEqual(a.gen.started[0], sent) {
		t.Errorf("arrived: %+v, sent %+v", a.gen.started, sent)
	}
}

// An agent says whether an address accepts, and is asked for nothing else.
func TestDials(t *testing.T) {
	c := dial(t, start(t), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if refused, err := c.Dials(t.Context(), l.Addr().String()); refused != "" || err != nil {
		t.Errorf("who listens: %q, %v", refused, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if refused, err := c.Dials(t.Context(), l.Addr().String()); !strings.Contains(refused, "refused") || err != nil {
		t.Errorf("who does not: %q, %v", refused, err)
	}
	if _, err := c.Dials(t.Context(), "localhost:80"); err == nil {
		t.Error("a name is looked up")
	}
	if _, err := c.Count(t.Context(), control.Census{Pod: "p", Peers: []string{"127.0.0.1:1"}}); err == nil || !strings.Contains(err.Error(), "counts no sockets") {
		t.Errorf("a census by who can't: %v", err)
	}
}

// Ask implements control.Asker.
func (g *generator) Ask(_ context.Context, s load.Stream, path string) error {
	if path != "/there" {
		return errors.New("nobody answers " + s.Addr)
	}
	return nil
}

// An agent says whether anybody answers, and asks addresses alone.
func TestAsks(t *testing.T) {
	c := dial(t, start(t), nil)
	at := load.Stream{Addr: "127.0.0.1:1"}
	if refused, err := c.Asks(t.Context(), at, "/there"); refused != "" || err != nil {
		t.Errorf("who answers: %q, %v", refused, err)
	}
	if refused, err := c.Asks(t.Context(), at, "/"); refused != "nobody answers 127.0.0.1:1" || err != nil {
		t.Errorf("who does not: %q, %v", refused, err)
	}
	if _, err := c.Asks(t.Context(), load.Stream{Addr: "localhost:80"}, "/there"); err == nil {
		t.Error("a name is looked up")
	}
	if _, err := c.Asks(t.Context(), at, "there"); err == nil {
		t.Error("what is no path is asked for")
	}
}

// When a load is over its CPU is told, once, before the client hears that it
// is over.
func TestCPUIsTold(t *testing.T) {
	a := start(t)
	c := dial(t, a, nil)
	ctx := t.Context()
	var mu sync.Mutex
	var told []timeline.Event
	followed := make(chan error, 1)
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		followed <- c.Follow(following, func(r timeline.Record) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, *r.Event)
			return nil
		})
	}()
	if err := c.WaitIdle(ctx); err != nil { // nothing has run yet
		t.Fatal(err)
	}
	for loads := 1; loads <= 2; loads++ {
		if err := c.Start(ctx, load.Stream{Name: flow.Named("one")}, load.Stream{Name: flow.Named("two")}); err != nil {
			t.Fatal(err)
		}
		a.gen.finish(flow.Named("one"))
		if _, err := c.Streams(ctx); err != nil {
			t.Fatal(err)
		}
		a.gen.finish(flow.Named("two"))
		for range 2 {
			if err := c.WaitIdle(ctx); err != nil {
				t.Fatal(err)
			}
			if err := c.CatchUp(ctx); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			if len(told) != loads {
				t.Fatalf("told %d times after %d loads: %+v", len(told), loads, told)
			}
			mu.Unlock()
		}
	}
	cancel()
	if err := <-followed; err != nil {
		t.Error(err)
	}
	var before time.Duration
	for _, e := range told {
		cpu, err := time.ParseDuration(e.Attrs["cpu"])
		if err != nil || cpu <= before || e.Kind != timeline.CPU || e.Source != "agent" || e.Subject != "p" || e.Node != "n" || e.At == 0 {
			t.Errorf("told %+v after %v: %v", e, before, err)
		}
		before = cpu
	}
}

func TestPressureAndSignal(t *testing.T) {
	a := start(t)
	c := dial(t, a, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Pressure(ctx, control.Pressure{Name: "hey", Addr: "127.0.0.1:1", Conns: 1, QPS: 1, Seconds: 1}); err != nil {
		t.Error(err)
	}
	if err := c.Pressure(ctx, control.Pressure{Name: "bad", Addr: "127.0.0.1:1", Conns: 1, QPS: 13, Seconds: 1}); err != nil {
		t.Error(err)
	}
	if err := c.Pressure(ctx, control.Pressure{Name: "hey"}); err == nil {
		t.Error("pressure of nothing was taken")
	}
	seen := map[string]string{}
	err := c.Follow(ctx, func(r timeline.Record) error {
		seen[r.Event.Subject] = r.Event.Attrs["requests"] + r.Event.Attrs["error"]
		if r.Event.Attrs["error"] != "" && r.Event.Name != "bad" {
			t.Errorf("what failed is called %q", r.Event.Name)
		}
		if len(seen) == 2 {
			cancel()
		}
		return nil
	})
	if err != nil || seen["hey"] != "7" || seen["bad"] != "no luck" {
		t.Errorf("%v %v", err, seen)
	}
	if pids, err := c.Signal(t.Context(), control.Signal{Pod: "x", Signal: "TERM"}); err != nil || len(pids) != 1 || pids[0] != 42 {
		t.Errorf("%v %v", pids, err)
	}
	for _, signal := range control.Signals() {
		if _, err := c.Signal(t.Context(), control.Signal{Pod: "x", Signal: signal}); err != nil {
			t.Errorf("%s: %v", signal, err)
		}
	}
	if _, err := c.Signal(t.Context(), control.Signal{Pod: "none", Signal: "KILL"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := c.Signal(t.Context(), control.Signal{Pod: "x", Signal: "HUP"}); err == nil {
		t.Error("any signal is sent")
	}
}

// Each stop returns when the summaries are recorded, also one that comes while another
// waits for them: whoever ends a recording behind it has them.
func TestStopPressure(t *testing.T) {
	a := start(t)
	c := dial(t, a, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	var told []timeline.Event
	followed := make(chan error, 1)
	go func() {
		followed <- c.Follow(ctx, func(r timeline.Record) error {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, *r.Event)
			return nil
		})
	}()
	if err := c.StopPressure(ctx, "nothing was begun"); err != nil {
		t.Error(err)
	}
	const n, why = 2, "the first endpoint stopped serving"
	for range n {
		if err := c.Pressure(ctx, control.Pressure{Name: "long", Addr: "127.0.0.1:1", Conns: 1, QPS: 1, Seconds: 1}); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan error, 2)
	go func() { stopped <- c.StopPressure(ctx, why) }()
	for range n {
		if got := <-a.press.stopped; got != why {
			t.Errorf("stopped because %q", got)
		}
	}
	go func() { stopped <- c.StopPressure(ctx, "") }()
	left := cap(stopped)
	select {
	case err := <-stopped:
		t.Errorf("a stop returned before the summaries were recorded: %v", err)
		left--
	case <-time.After(300 * time.Millisecond):
	}
	close(a.press.let)
	for range left {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
	if err := c.StopPressure(ctx, "again"); err != nil {
		t.Error(err)
	}
	if err := c.CatchUp(ctx); err != nil {
		t.Error(err)
	}
	mu.Lock()
	if len(told) != n {
		t.Errorf("told %+v, want %d summaries", told, n)
	}
	for _, e := range told {
		if e.Kind != timeline.Pressure || e.Subject != "long" || e.Node != "n" || e.Attrs["stopped"] != why {
			t.Errorf("told %+v", e)
		}
	}
	mu.Unlock()
	cancel()
	if err := <-followed; err != nil {
		t.Error(err)
	}
}

// The end of a load has no cause of its own.
func TestStopPressureWithoutAReason(t *testing.T) {
	a := start(t)
	c := dial(t, a, nil)
	close(a.press.let)
	if err := c.Pressure(t.Context(), control.Pressure{Name: "long", Addr: "127.0.0.1:1", Conns: 1, QPS: 1, Seconds: 1}); err != nil {
		t.Fatal(err)
	}
	if err := c.StopPressure(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if got := <-a.press.stopped; got != context.Canceled.Error() {
		t.Errorf("stopped because %q", got)
	}
}

func TestCredentialsOnDisk(t *testing.T) {
	a, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range c.Files() {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := control.ReadCredentials(dir)
	if err != nil || !bytes.Equal(got.CA, c.CA) || !bytes.Equal(got.Cert, c.Cert) || !bytes.Equal(got.Key, c.Key) {
		t.Errorf("read back: %v", err)
	}
	if _, err := control.ReadCredentials(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tls.key") {
		t.Error(err)
	}
	if _, err := (control.Credentials{CA: []byte("x"), Cert: c.Cert, Key: c.Key}).ServerTLS(); err == nil {
		t.Error("an empty authority was taken")
	}
}

func TestDialSaysWhatItSaw(t *testing.T) {
	leakCheck(t)
	a, _ := control.NewAuthority()
	c, _ := a.Client()
	// It has been refused once when it dials again, and then its time is over.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dials := 0
	if _, err := control.Dial(ctx, "127.0.0.1:1", func(ctx context.Context) (net.Conn, error) {
		if dials++; dials == 2 {
			cancel()
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:1")
	}, c); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}
