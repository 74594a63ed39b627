// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// backendEnv makes the test binary a backend in a process of its own, so that
// a benchmark measures the client alone.
const backendEnv = "LASTCALL_TEST_BACKEND"

// The tests run beside each other, more of them than there are CPUs, because
// they wait for their schedules.
func TestMain(m *testing.M) {
	if os.Getenv(backendEnv) == "" {
		flag.Parse()
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	l, err := listenLoopback()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	srv := &http.Server{Handler: http.HandlerFunc(backend), Protocols: &p}
	// Ends with the pipe to the benchmark.
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); _ = srv.Close() }()
	_ = srv.Serve(l)
	os.Exit(0)
}

// startBackend runs a backend in another process and returns its address.
func startBackend(tb testing.TB) string {
	tb.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), backendEnv+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = in.Close(); _ = c.Wait() })
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		tb.Fatal(err)
	}
	return addr
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAttempt compares an attempt of the probe with a request of
// net/http's client: one after the other, 256 bytes, one connection kept or a
// new one for each.
func BenchmarkAttempt(b *testing.B) {
	addr := startBackend(b)
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for _, conns := range []flow.Conns{flow.New, flow.Reused} {
			p := load.Profile{Flow: flow.Flow{Protocol: proto, Conns: conns, Op: flow.Get}, Rate: 1}
			name := string(proto) + "/" + string(conns)
			b.Run(name+"/probe", func(b *testing.B) {
				var failed error
				one := testStream(addr, p)
				at, _ := check(one)
				s, err := newStream(b.Context(), one, at, func(x timeline.Record) {
					if x.Sample != nil && x.Sample.Failed() {
						failed = fmt.Errorf("%s", text(*x.Sample))
					}
				})
				if err != nil {
					b.Fatal(err)
				}
				if conns == flow.Reused {
					s.keeper = newPool(0.1, s.leave, s.end)
				}
				defer func() { s.stop(); s.finish() }()
				measure(b, func(i int) error { s.attempt(timeline.Monotonic(), int64(i)); return failed })
			})
			b.Run(name+"/net-http", func(b *testing.B) {
				t := &http.Transport{DisableKeepAlives: conns == flow.New, Protocols: new(http.Protocols), DisableCompression: true}
				if proto == flow.H2C {
					t.Protocols.SetUnencryptedHTTP2(true)
				} else {
					t.Protocols.SetHTTP1(true)
				}
				defer t.CloseIdleConnections()
				c := &http.Client{Transport: t, Timeout: 10 * time.Second}
				form := newForm(testStream(addr, p), addr, clients[p.Op])
				measure(b, func(i int) error { return plain(b.Context(), c, form, i) })
			})
		}
	}
}

// plain is one request by net/http, with its body read and compared.
func plain(ctx context.Context, c *http.Client, f form, i int) error {
	req, err := http.NewRequestWithContext(ctx, f.method, f.url.String(), nil)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("plain-%d", i)
	req.Header.Set(work.HeaderID, id)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if want, _ := io.ReadAll(work.Body(id, work.SmallBytes)); string(got) != string(want) {
		return fmt.Errorf("another body than the request ID's")
	}
	return nil
}

// measure adds attempts/s and the processor time of an attempt to a benchmark.
func measure(b *testing.B, attempt func(i int) error) {
	b.ReportAllocs()
	i, before := 0, cpu()
	for b.Loop() {
		if err := attempt(i); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "attempts/s")
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(i), "cpu-µs/attempt")
}

// BenchmarkStream is the cost of a paced stream: processor time in percent of
// one core for each 100 requests/s, and how late attempts start. With
// LASTCALL_BENCH_STREAM=500,20s it runs once, at that rate for that long.
func BenchmarkStream(b *testing.B) {
	rate, lasts := 200.0, 2*time.Second
	if s := os.Getenv("LASTCALL_BENCH_STREAM"); s != "" {
		r, d, _ := strings.Cut(s, ",")
		if _, err := fmt.Sscan(r, &rate); err != nil {
			b.Fatal(err)
		}
		var err error
		if lasts, err = time.ParseDuration(d); err != nil {
			b.Fatal(err)
		}
	}
	addr := startBackend(b)
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for _, conns := range []flow.Conns{flow.New, flow.Reused} {
			b.Run(string(proto)+"/"+string(conns), func(b *testing.B) {
				for b.Loop() {
					paced(b, addr, load.Profile{Flow: flow.Flow{Protocol: proto, Conns: conns, Op: flow.Get}, Rate: rate}, lasts)
				}
			})
		}
	}
}

func paced(b *testing.B, addr string, p load.Profile, lasts time.Duration) {
	s := testStream(addr, p)
	// That of pod.* behaviours: a third of their resolution.
	s.Tolerance = 20 * time.Millisecond
	var r recording
	before := cpu()
	h, err := Generator{}.Start(b.Context(), s, r.emit)
	if err != nil {
		b.Fatal(err)
	}
	<-time.After(lasts)
	h.Stop()
	<-h.Done()
	used := cpu() - before
	var late, worst time.Duration
	samples := r.all()
	for _, x := range samples {
		if x.Failed() {
			b.Errorf("failed: %s", text(x))
		}
		late += x.Start - x.Due
		worst = max(worst, x.Start-x.Due)
	}
	n := float64(len(samples))
	rate := n / lasts.Seconds()
	b.ReportMetric(100*used.Seconds()/lasts.Seconds()/rate*100, "%core/100rps")
	b.ReportMetric(rate, "rps")
	b.ReportMetric(float64(late.Microseconds())/n, "late-µs")
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-late-ms")
	b.ReportMetric(float64(r.count(func(s timeline.Sample) bool { return s.Saturated })), "saturated")
}
