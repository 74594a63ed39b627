// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"crypto/sha256"
	"encoding/hex"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// patience bounds what is waited for. It costs nothing where all is well, and a
// machine may stand still for seconds.
const patience = time.Minute

// noLeaks fails the test if it leaves goroutines behind.
func noLeaks(t testing.TB) gomega.Gomega {
	t.Helper()
	g := gomega.NewWithT(t)
	good := gleak.Goroutines()
	t.Cleanup(func() {
		g.Eventually(gleak.Goroutines).WithTimeout(patience).WithPolling(20 * time.Millisecond).
			ShouldNot(gleak.HaveLeaked(good))
	})
	return g
}

// flushing is a ResponseWriter whose pieces leave at once.
type flushing struct {
	http.ResponseWriter
}

func (f flushing) Flush() { _ = http.NewResponseController(f.ResponseWriter).Flush() }

// proxy is from where backend says that a GET came.
const proxy = "192.0.2.1"

// backend answers as the echo server does.
func backend(w http.ResponseWriter, r *http.Request) {
	job, err := work.ParseJob(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.Header.Get(work.HeaderID)
	w.Header().Set(work.HeaderPod, "pod-1")
	w.Header().Set(work.HeaderPeer, proxy)
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		return
	}
	later := time.NewTimer(job.Later)
	defer later.Stop()
	select {
	case <-later.C:
	case <-r.Context().Done():
		return
	}
	if r.Method == http.MethodPost {
		w.Header().Set(work.HeaderPeer, "127.0.0.1") // the client itself
		_ = json.NewEncoder(w).Encode(work.Uploaded{Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))})
		return
	}
	if !job.Chunked {
		w.Header().Set("Content-Length", strconv.FormatInt(job.Bytes, 10))
	}
	_, _ = work.Send(r.Context(), flushing{w}, id, job.Bytes, job.Takes)
}

// serve runs a server of a protocol until the test ends, and counts its
// connections.
func serve(t testing.TB, proto flow.Protocol, h http.HandlerFunc) (addr string, opened *atomic.Int64) {
	t.Helper()
	if proto.Tunnels() {
		m := newMesh(t, h)
		meshes.Store(m.addr, m)
		t.Cleanup(func() { meshes.Delete(m.addr) })
		return m.addr, &m.opened
	}
	opened = new(atomic.Int64)
	if proto.HTTP() == 2 {
		var open sync.Map
		addr = accept(t, func(_ int, tcp *net.TCPConn) {
			opened.Add(1)
			open.Store(tcp, nil)
			defer open.Delete(tcp)
			c := newFarEnd(tcp, proto)
			defer c.Close()
			if p, err := newPeer(c); err == nil {
				p.handle(h)
			}
		})
		// Before accept's own cleanup, which waits for them.
		t.Cleanup(func() { open.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true }) })
		return addr, opened
	}
	l := listen(t)
	srv := &http.Server{Handler: h, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}}
	var wg sync.WaitGroup
	wg.Go(func() {
		serve := srv.Serve
		if proto.Secure() {
			srv.TLSConfig = identity().server(proto)
			srv.Protocols = new(http.Protocols)
			srv.Protocols.SetHTTP1(true)
			serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
		}
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() { _ = srv.Close(); wg.Wait() })
	return l.Addr().String(), opened
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := listenLoopback()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func listenLoopback() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// accept runs script on each connection, with its number from 1, until the
// test ends. It closes them.
func accept(t testing.TB, script func(n int, c *net.TCPConn)) string {
	t.Helper()
	l := listen(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				script(n, c.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

// stream is a stream with everything that most tests don't care about.
func testStream(addr string, p load.Profile) load.Stream {
	p.Path = flow.Direct
	if p.Rate == 0 {
		p.Rate = 15 // many of them run beside each other, on a machine that may have little CPU to give
	}
	s := load.Stream{
		Name: flow.To(p.Flow, ""), Profile: p, Addr: addr,
		// Generous: the machine may be busy, and only some tests are about time.
		Tolerance: patience, Timeout: patience, Seed: 1,
	}
	if m, there := meshes.Load(addr); there && p.Protocol.Tunnels() {
		m.(*mesh).tunnelled(&s)
	} else if p.Protocol.Secure() {
		s.CA, s.ServerName = string(identity().ca), serverName
	}
	return s
}

// recording collects samples and frames.
type recording struct {
	mu      sync.Mutex
	samples []timeline.Sample
	frames  []timeline.Frame
}

func (r *recording) emit(x timeline.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.Sample != nil {
		r.samples = append(r.samples, *x.Sample)
	}
	if x.Frame != nil {
		r.frames = append(r.frames, *x.Frame)
	}
}

// shown is for how long the certificate of a connection's peer was good, as the client tells it, and how often it does.
func (r *recording) shown(conn uint64) (good time.Duration, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.frames {
		if f.Conn == conn && f.Kind == timeline.FrameCertificate {
			good, _ = time.ParseDuration(f.Attrs["for"])
			n++
		}
	}
	return good, n
}

// told are the frames of a connection, each with its attributes.
func (r *recording) told(conn uint64) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, f := range r.frames {
		if f.Conn != conn || f.Kind == timeline.FrameCertificate { // each tunnel begins with that (shown)
			continue
		}
		text := string(f.Kind)
		for _, name := range slices.Sorted(maps.Keys(f.Attrs)) {
			text += " " + name
			if name != "answered" { // how long that took is another each time
				text += "=" + f.Attrs[name]
			}
		}
		out = append(out, text)
	}
	return out
}

func (r *recording) all() []timeline.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]timeline.Sample(nil), r.samples...)
}

func (r *recording) count(ok func(timeline.Sample) bool) int {
	n := 0
	for _, s := range r.all() {
		if ok(s) {
			n++
		}
	}
	return n
}

// record runs a stream until n samples have come, stops it and waits.
func record(t testing.TB, s load.Stream, n int) []timeline.Sample {
	t.Helper()
	return recordUntil(t, s, func(all []timeline.Sample) bool { return len(all) >= n })
}

// recordUntil runs a stream until its samples are enough, stops it and waits.
func recordUntil(t testing.TB, s load.Stream, enough func(all []timeline.Sample) bool) []timeline.Sample {
	t.Helper()
	var r recording
	done := make(chan struct{})
	var once sync.Once
	h, err := Generator{}.Start(t.Context(), s, func(x timeline.Record) {
		r.emit(x)
		if enough(r.all()) {
			once.Do(func() { close(done) })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("the %d samples of %v are not enough", len(r.all()), patience)
	}
	h.Stop()
	ended(t, h)
	return r.all()
}

// ended waits until a stream is done: at the latest, all its attempts have
// taken too long by then.
func ended(t testing.TB, h load.Handle) {
	t.Helper()
	select {
	case <-h.Done():
	case <-time.After(3 * patience):
		t.Fatalf("the stream did not end in %v", 3*patience)
	}
}

// unpaced is a stream that nobody paces: each attempt is the test's own. It has
// no keeper.
func unpaced(t testing.TB, s load.Stream) (*stream, *recording) {
	t.Helper()
	var r recording
	addr, err := check(s)
	if err != nil {
		t.Fatal(err)
	}
	st, err := newStream(t.Context(), s, addr, r.emit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.stop)
	return st, &r
}

// idleStream is one that ends with the test. Its pool opens so many connections
// before it uses one again, and no keeper is swept.
func idleStream(t testing.TB, s load.Stream, least int) (*stream, *recording) {
	t.Helper()
	st, r := unpaced(t, s)
	switch s.Profile.Conns {
	case flow.Reused:
		st.keeper = &pool{stock: stock{leave: st.leave, end: st.end}, least: least}
	case flow.Shared:
		st.keeper = &shared{stock: stock{leave: st.leave, end: st.end}}
	}
	t.Cleanup(func() { st.stop(); st.finish() })
	return st, r
}

// inTurn makes n attempts, one after the other, and calls between from one to
// the next.
func inTurn(t testing.TB, s load.Stream, least, n int, between func(p *pool)) []timeline.Sample {
	t.Helper()
	st, r := idleStream(t, s, least)
	for i := range n {
		if i > 0 {
			between(st.keeper.(*pool))
		}
		st.attempt(timeline.Monotonic(), int64(i))
	}
	return r.all()
}

// atOnce makes n attempts at the same time, each on a connection of its own.
func atOnce(t testing.TB, s load.Stream, n int) []timeline.Sample {
	t.Helper()
	st, r := idleStream(t, s, n)
	for i := range n {
		st.attempts.Go(func() { st.attempt(timeline.Monotonic(), int64(i)) })
	}
	st.attempts.Wait()
	return r.all()
}

// awaitIdle waits until all idle connections of a pool are in a state.
func awaitIdle(t testing.TB, p *pool, want state) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() []state {
		p.mu.Lock()
		defer p.mu.Unlock()
		var other []state
		for _, l := range p.links {
			if s := l.state(); s != want {
				other = append(other, s)
			}
		}
		return other
	}).WithTimeout(patience).WithPolling(time.Millisecond).Should(gomega.BeEmpty())
}

// text is a sample for a failed test.
func text(s timeline.Sample) string {
	b, _ := json.Marshal(s)
	return fmt.Sprint(string(b))
}
