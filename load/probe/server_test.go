// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	"github.com/lastcall-dev/lastcall/load/work"
)

// noLeaks fails the test if it leaves goroutines behind.
func noLeaks(t testing.TB) gomega.Gomega {
	t.Helper()
	g := gomega.NewWithT(t)
	good := gleak.Goroutines()
	t.Cleanup(func() {
		g.Eventually(gleak.Goroutines).WithTimeout(5 * time.Second).WithPolling(20 * time.Millisecond).
			ShouldNot(gleak.HaveLeaked(good))
	})
	return g
}

// flushing is a ResponseWriter whose pieces leave at once.
type flushing struct {
	http.ResponseWriter
}

func (f flushing) Flush() { _ = http.NewResponseController(f.ResponseWriter).Flush() }

// backend answers as the echo server does.
func backend(w http.ResponseWriter, r *http.Request) {
	job, err := work.ParseJob(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.Header.Get(work.HeaderID)
	w.Header().Set(work.HeaderPod, "pod-1")
	if r.Method == http.MethodPost {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		if err != nil {
			return
		}
		_ = json.NewEncoder(w).Encode(work.Uploaded{Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))})
		return
	}
	if !job.Chunked {
		w.Header().Set("Content-Length", strconv.FormatInt(job.Bytes, 10))
	}
	_, _ = work.Send(r.Context(), flushing{w}, id, job.Bytes, job.Takes)
}

// serve runs a net/http server for HTTP/1.1 and h2c until the test ends, and
// counts its connections.
func serve(t testing.TB, h http.HandlerFunc) (addr string, opened *atomic.Int64) {
	t.Helper()
	l := listen(t)
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	opened = new(atomic.Int64)
	srv := &http.Server{Handler: h, Protocols: &p, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
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
	p.Path = load.Direct
	if p.Rate == 0 {
		p.Rate = 100
	}
	return load.Stream{
		Name: p.Key(), Profile: p, Addr: addr,
		// Generous: the machine may be busy, and only some tests are about time.
		Tolerance: 5 * time.Second, Timeout: 10 * time.Second, Seed: 1,
	}
}

// recording collects samples.
type recording struct {
	mu      sync.Mutex
	samples []timeline.Sample
}

func (r *recording) emit(s timeline.Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples = append(r.samples, s)
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
	var r recording
	enough := make(chan struct{})
	var once sync.Once
	h, err := Generator{}.Start(t.Context(), s, func(s timeline.Sample) {
		r.emit(s)
		if len(r.all()) >= n {
			once.Do(func() { close(enough) })
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-enough:
	case <-time.After(20 * time.Second):
		t.Errorf("%d samples in 20 s, want %d", len(r.all()), n)
	}
	h.Stop()
	select {
	case <-h.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the stream did not end in 20 s")
	}
	return r.all()
}

// text is a sample for a failed test.
func text(s timeline.Sample) string {
	b, _ := json.Marshal(s)
	return fmt.Sprint(string(b))
}
