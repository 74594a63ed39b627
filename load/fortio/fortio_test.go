// SPDX-License-Identifier: Apache-2.0

package fortio

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/work"
)

// patience bounds what is waited for. It costs nothing where all is well, and a
// machine may stand still for seconds.
const patience = time.Minute

func noLeaks(t *testing.T) {
	t.Helper()
	g := gomega.NewWithT(t)
	good := gleak.Goroutines()
	t.Cleanup(func() {
		g.Eventually(gleak.Goroutines).WithTimeout(patience).ShouldNot(gleak.HaveLeaked(good))
	})
}

// backend answers n requests out of every well ones, and counts all, and the
// connections they come on.
type backend struct {
	addr     string
	requests atomic.Int64
	conns    atomic.Int64
	marker   atomic.Value // of the last one
}

func newBackend(t *testing.T, status func(n int64) int) *backend {
	t.Helper()
	b := &backend{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := b.requests.Add(1)
		b.marker.Store(r.Header.Get(work.HeaderPressure))
		if id := r.Header.Get(work.HeaderID); id != "" {
			t.Errorf("it has the ID %s", id)
		}
		if r.URL.Path != work.URLPath || r.URL.Query().Get("bytes") != strconv.Itoa(work.SmallBytes) {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status(n))
		_, _ = work.Send(r.Context(), w, "", work.SmallBytes, 0)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			b.conns.Add(1)
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	b.addr = srv.Listener.Addr().String()
	return b
}

// await calls then when so many requests more have come.
func (b *backend) await(t *testing.T, more int64, then func()) {
	defer then()
	from := b.requests.Load()
	deadline := time.After(patience)
	for b.requests.Load() < from+more {
		select {
		case <-deadline:
			t.Errorf("%d requests in %v, want %d", b.requests.Load()-from, patience, more)
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func ok(int64) int { return http.StatusOK }

// number reads a count of a summary.
func number(t *testing.T, e timeline.Event, key string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(e.Attrs[key], 64)
	if err != nil {
		t.Errorf("%s in %v: %v", key, e.Attrs, err)
	}
	return f
}

// buckets reads a histogram: how many requests it has, and whether its buckets' ends
// rise up to the longest.
func buckets(t *testing.T, e timeline.Event) (requests float64, rises bool) {
	t.Helper()
	last := -1.0
	rises = true
	for _, word := range strings.Fields(e.Attrs["histogram"]) {
		var end, n float64
		if _, err := fmt.Sscanf(word, "%f:%f", &end, &n); err != nil {
			t.Errorf("%q in %v: %v", word, e.Attrs, err)
		}
		requests += n
		rises = rises && end > last
		last = end
	}
	return requests, rises && last == number(t, e, "maxms")
}

func TestRun(t *testing.T) {
	noLeaks(t)
	b := newBackend(t, ok)
	e, err := run(t.Context(), Spec{Name: "hey", Addr: b.addr, Conns: 10, QPS: 200, Duration: 2 * time.Second}, patience)
	if err != nil {
		t.Fatal(err)
	}
	if e.Kind != timeline.Pressure || e.Name != "hey" || e.Source != "agent" || e.At == 0 {
		t.Errorf("event %+v", e)
	}
	n := number(t, e, "requests")
	// A busy machine makes fewer, down to one for each connection: what was late
	// isn't caught up with.
	if n < 10 || n > 400 {
		t.Errorf("%v requests in 2 s at 200/s, over 10 connections", n)
	}
	if number(t, e, "ok") != n || number(t, e, "errors") != 0 || number(t, e, "sockets") != 10 {
		t.Errorf("summary %v", e.Attrs)
	}
	if p50, p90, p99, most := number(t, e, "p50ms"), number(t, e, "p90ms"), number(t, e, "p99ms"), number(t, e, "maxms"); p50 <= 0 || p90 < p50 || p99 < p90 || most < p99 {
		t.Errorf("p50 %v ms, p90 %v ms, p99 %v ms, longest %v ms", p50, p90, p99, most)
	}
	if in, rises := buckets(t, e); in != n || !rises {
		t.Errorf("%v requests in the histogram %s, want %v, up to %s ms", in, e.Attrs["histogram"], n, e.Attrs["maxms"])
	}
	if number(t, e, "warmups") != 10 || number(t, e, "conns") != 10 || number(t, e, "qps") != 200 || number(t, e, "socketErrors") != 0 || number(t, e, "seconds") < 1.5 {
		t.Errorf("summary %v", e.Attrs)
	}
	if stopped, early := e.Attrs["stopped"]; early {
		t.Errorf("it lasted as long as it should, and was stopped: %s", stopped)
	}
	if got := b.marker.Load(); got != "hey" {
		t.Errorf("the marker is %q", got)
	}
	if got := b.requests.Load(); got != int64(n)+10 {
		t.Errorf("the server saw %d requests, want %v and 10 to warm up", got, n)
	}
}

func TestRunCountsErrors(t *testing.T) {
	noLeaks(t)
	b := newBackend(t, func(n int64) int {
		if n%4 == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	// It is over when there is enough to count, on a slow machine too.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go b.await(t, 60, cancel)
	e, err := run(ctx, Spec{Name: "hey", Addr: b.addr, Conns: 4, QPS: 100, Duration: time.Hour}, patience)
	if err != nil {
		t.Fatal(err)
	}
	n, bad := number(t, e, "requests"), number(t, e, "errors")
	if n < 50 || bad < n/4-3 || bad > n/4+3 || number(t, e, "ok")+bad != n {
		t.Errorf("a quarter fails: %v", e.Attrs)
	}
	if number(t, e, "status.503") != bad || number(t, e, "socketErrors") != 0 || e.Attrs["status.200"] != "" {
		t.Errorf("each was answered 503: %v", e.Attrs)
	}
}

// A server that isn't there is a result, not an error.
func TestRunAgainstNobody(t *testing.T) {
	noLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	e, err := Run(t.Context(), Spec{Name: "hey", Addr: l.Addr().String(), Conns: 2, QPS: 20, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if n := number(t, e, "errors"); n == 0 || n != number(t, e, "requests") || n != number(t, e, "socketErrors") {
		t.Errorf("summary %v", e.Attrs)
	}
	for key := range e.Attrs {
		if strings.HasPrefix(key, "status.") {
			t.Errorf("nobody answered, and there is %s", key)
		}
	}
}

// A connection is kept, or there is one for each request.
func TestFresh(t *testing.T) {
	noLeaks(t)
	for _, fresh := range []bool{false, true} {
		b := newBackend(t, ok)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.await(t, 30, cancel)
		e, err := run(ctx, Spec{Name: "hey", Addr: b.addr, Conns: 3, QPS: 100, Duration: time.Hour, Fresh: fresh}, patience)
		if err != nil {
			t.Fatal(err)
		}
		want := int64(3)
		if fresh {
			want = b.requests.Load()
		}
		if got := b.conns.Load(); got != want || number(t, e, "sockets") != float64(want) || number(t, e, "errors") != 0 {
			t.Errorf("fresh %t: %d connections for %d requests, want %d: %v", fresh, got, b.requests.Load(), want, e.Attrs)
		}
	}
}

// The end of the load is no early end; what has another cause says which.
func TestRunSaysWhyItEndedEarly(t *testing.T) {
	noLeaks(t)
	const why = "the first endpoint stopped serving"
	for _, tc := range []struct {
		cause error
		want  string
	}{{nil, ""}, {fmt.Errorf("the end: %w", context.Canceled), ""}, {errors.New(why), why}} {
		b := newBackend(t, ok)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		go b.await(t, 10, func() { cancel(tc.cause) })
		e, err := run(ctx, Spec{Name: "hey", Addr: b.addr, Conns: 2, QPS: 50, Duration: time.Hour}, patience)
		if err != nil {
			t.Fatal(err)
		}
		if got, told := e.Attrs["stopped"]; got != tc.want || told != (tc.want != "") {
			t.Errorf("cause %v: stopped %q", tc.cause, got)
		}
	}
}

// The end of the context ends a run, whose summary still comes; runs beside
// each other have nothing in common.
func TestRunsEndApart(t *testing.T) {
	noLeaks(t)
	// Each has a server of its own, which says how far it is.
	type long struct {
		*backend
		ctx   context.Context
		cut   context.CancelFunc
		ended chan timeline.Event
	}
	begin := func() long {
		l := long{backend: newBackend(t, ok), ended: make(chan timeline.Event, 1)}
		l.ctx, l.cut = context.WithCancel(t.Context())
		t.Cleanup(l.cut)
		go func() {
			e, err := run(l.ctx, Spec{Name: "long", Addr: l.addr, Conns: 3, QPS: 60, Duration: time.Hour}, patience)
			if err != nil {
				t.Error(err)
			}
			l.ended <- e
		}()
		return l
	}
	first, second := begin(), begin()
	for _, l := range []long{first, second} {
		// The second goes on when the first has ended.
		l.await(t, 20, l.cut)
		select {
		case e := <-l.ended:
			if number(t, e, "requests") < 15 || number(t, e, "errors") != 0 {
				t.Errorf("cut: %v", e.Attrs)
			}
		case <-time.After(patience):
			t.Fatal("a run that was cut goes on")
		}
	}
	begun := time.Now()
	e, err := run(t.Context(), Spec{Name: "short", Addr: first.addr, Conns: 3, QPS: 60, Duration: 2 * time.Second}, patience)
	if took := time.Since(begun); err != nil || took < 1500*time.Millisecond || number(t, e, "requests") < 3 {
		t.Errorf("%v took %v: %v", e.Attrs, took, err)
	}
	if _, err := Run(first.ctx, Spec{Name: "late", Addr: first.addr, Conns: 1, QPS: 10, Duration: time.Second}); err == nil {
		t.Error("a run began on a context that had ended")
	}
}

// fortio resets the handlers of SIGINT unless it is kept from it: style.md F.
func TestSignalsAreLeftAlone(t *testing.T) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt)
	defer signal.Stop(got)
	b := newBackend(t, ok)
	if _, err := Run(t.Context(), Spec{Name: "hey", Addr: b.addr, Conns: 1, QPS: 20, Duration: 200 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-time.After(patience):
		t.Error("SIGINT did not reach its handler")
	}
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	good := Spec{Name: "hey", Addr: "127.0.0.1:80", Conns: 1, QPS: 10, Duration: time.Second}
	for _, c := range []struct {
		change func(*Spec)
		say    string
	}{
		{func(s *Spec) { s.Name = "" }, "no name"},
		{func(s *Spec) { s.Addr = "echo:80" }, "want an IP and a port"},
		{func(s *Spec) { s.Conns = 0 }, "want 1 to"},
		{func(s *Spec) { s.Conns = MaxConns + 1 }, "want 1 to"},
		{func(s *Spec) { s.QPS = 0 }, "requests per second"},
		{func(s *Spec) { s.QPS = math.Inf(1) }, "requests per second"},
		{func(s *Spec) { s.Duration = 0 }, "duration 0s"},
		{func(s *Spec) { s.Conns = 6 }, "fewer connections or a longer run"},
	} {
		s := good
		c.change(&s)
		if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%+v: error %v, want %q in it", s, err, c.say)
		}
	}
}
