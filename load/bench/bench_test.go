// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/work"
)

// What the peers print, as they printed it.
func TestReadsPeers(t *testing.T) {
	for name, c := range map[string]struct {
		read func(*peer, []byte, string) (result, error)
		said string
		want result
		bad  bool
	}{
		"hey": {readHey, "Status code distribution:\n  [200]\t10 responses\n  [503]\t2 responses\n\nError distribution:\n  [3]\tGet \"http://127.77.9.2:18077/\": dial tcp 127.77.9.2:18077: connect: connection refused\n  [1]\tGet \"http://127.77.9.2:18077/\": EOF\n\n",
			result{Requests: 16, Failed: 6}, false},
		"hey, all well":  {readHey, "Status code distribution:\n  [200]\t10 responses\n\n\n\n", result{Requests: 10}, false},
		"hey, nothing":   {readHey, "", result{}, true},
		"wrk":            {readWrk, "  37599 requests in 1.10s, 12.05MB read\n  Socket errors: connect 1, read 20, write 3, timeout 4\n  Non-2xx or 3xx responses: 5\n", result{Requests: 37632, Failed: 33}, false},
		"wrk, all well":  {readWrk, "  1 threads and 2 connections\n  37599 requests in 1.10s, 12.05MB read\n", result{Requests: 37599}, false},
		"wrk, nothing":   {readWrk, "unable to connect", result{}, true},
		"h2load":         {readH2load, "requests: 6000 total, 6000 started, 5958 done, 5958 succeeded, 42 failed, 42 errored, 0 timeout\n", result{Requests: 6000, Failed: 42}, false},
		"h2load, none":   {readH2load, "", result{}, true},
		"probe":          {readOwn, `{"requests":3,"failed":1,"late":[1,2,3]}`, result{3, 1, []time.Duration{1, 2, 3}}, false},
		"probe, nothing": {readOwn, "", result{}, true},
	} {
		got, err := c.read(nil, []byte(c.said), "")
		if (err != nil) != c.bad || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestOffSchedule(t *testing.T) {
	const ms = time.Millisecond
	every := func(n int, gap time.Duration) (out []time.Duration) {
		for k := range n {
			out = append(out, 5*time.Second+time.Duration(k)*gap)
		}
		return out
	}
	late := every(3000, ms)
	for i := range 7 {
		late[2000+i] = late[2007] // it stood still
	}
	for name, c := range map[string]struct {
		arrivals    []time.Duration
		p50, worst  time.Duration
		reached     float64
		reachedNone bool
	}{
		"exact":         {every(3000, ms), 0, 0, 1000, false},
		"a stall":       {late, 0, 7 * ms, 1000, false},
		"in any order":  {slices.Concat(every(3000, ms)[1500:], every(3000, ms)[:1500]), 0, 0, 1000, false},
		"nothing":       {nil, 0, 0, 0, true},
		"one":           {every(1, ms), 0, 0, 0, true},
		"half the rate": {every(3000, 2*ms), 1000 * ms, 2249 * ms, 500, false},
	} {
		errs, reached := offSchedule(c.arrivals, 1000)
		if math.Abs(reached-c.reached) > 0.01 || c.reachedNone != (errs == nil) {
			t.Errorf("%s: %v/s, want %v; %d errors", name, reached, c.reached, len(errs))
		}
		if p50, worst := percentile(errs, 50), percentile(errs, 100); (p50-c.p50).Abs() > 5*ms || (worst-c.worst).Abs() > 2*ms && c.worst < 100*ms {
			t.Errorf("%s: p50 %v, worst %v, want %v and %v", name, p50, worst, c.p50, c.worst)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want float64
	}{{0, 10, 0}, {0, 0, 0}, {300, 300, 0.99006}, {10, 10, 0.74113}, {299, 300, 0.98428}, {5, 10, 0.22244}, {1, 10, 0.00512}} {
		if got := atLeast(c.k, c.n); math.Abs(got-c.want) > 5e-5 {
			t.Errorf("%d of %d: %.5f, want %.5f", c.k, c.n, got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	v := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for p, want := range map[float64]int{50: 5, 99: 10, 100: 10, 0: 1, 10: 1, 11: 2} {
		if got := percentile(v, p); got != want {
			t.Errorf("p%v: %d, want %d", p, got, want)
		}
	}
	if got := median([]float64{9, 1, 5}); got != 5 {
		t.Errorf("median %v", got)
	}
	if got := percentile([]int(nil), 50); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// An outage counts as seen by who met it and told; who tells of less than it met
// has seen no more than it told of.
func TestSeen(t *testing.T) {
	met := func(times, met, refused, failed int) measured {
		return measured{count: count{Outages: make([]time.Duration, times), Met: met, Refused: refused}, result: result{Failed: failed}}
	}
	for name, c := range map[string]struct {
		ms     []measured
		n      int
		hidden bool
	}{
		"told of all":    {[]measured{met(10, 9, 30, 30)}, 9, false},
		"two rounds":     {[]measured{met(10, 9, 30, 30), met(10, 10, 30, 31)}, 19, false},
		"told of none":   {[]measured{met(10, 9, 30, 0)}, 0, true},
		"told of few":    {[]measured{met(10, 9, 30, 4)}, 4, true},
		"told of enough": {[]measured{met(10, 9, 30, 29)}, 9, true},
	} {
		n, _, hidden := seen(c.ms)
		if n != c.n || hidden != c.hidden {
			t.Errorf("%s: %d, %v, want %d, %v", name, n, hidden, c.n, c.hidden)
		}
	}
}

func dialBackend(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// The backend answers with the body of the ID, counts, and its gate resets.
func TestBackend(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &backend{}
	b.begin(false)
	go b.accept(l)
	c := dialBackend(t, l)
	r := bufio.NewReader(c)
	ask := func(more string) string {
		before := timeline.Monotonic()
		if _, err := io.WriteString(c, "GET /work HTTP/1.1\r\nHost: b\r\nx-lastcall-ID: a-1\r\n"+more+"\r\n"); err != nil {
			t.Fatal(err)
		}
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return head.String() + err.Error()
			}
			if head.WriteString(line); line == "\r\n" {
				break
			}
		}
		got, want := make([]byte, work.SmallBytes), make([]byte, work.SmallBytes)
		_, _ = io.ReadFull(work.Body("a-1", work.SmallBytes), want)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != string(want) {
			t.Errorf("another body: %v", err)
		}
		if told := b.told(true); told.Arrivals[len(told.Arrivals)-1] < before {
			t.Errorf("arrived at %v, before %v", told.Arrivals, before)
		}
		return head.String()
	}
	if head := ask(""); !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || strings.Contains(head, "close") {
		t.Errorf("answer %q", head)
	}
	b.mu.Lock()
	b.shut = true
	b.mu.Unlock()
	if head := ask(""); !strings.Contains(head, "reset") {
		t.Errorf("behind a gate that is shut: %q", head)
	}
	// An RST that comes at once can be there before connect has returned.
	behind, err := net.Dial("tcp", l.Addr().String())
	if err == nil {
		_ = behind.SetDeadline(time.Now().Add(time.Minute))
		_, err = behind.Read(make([]byte, 1))
		_ = behind.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("a new connection behind the gate: %v", err)
	}
	b.mu.Lock()
	b.shut = false
	b.mu.Unlock()
	c = dialBackend(t, l)
	r.Reset(c)
	if head := ask("connection: Close\r\n"); !strings.Contains(head, "Connection: close\r\n") {
		t.Errorf("the last answer: %q", head)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after the last answer: %v", err)
	}
	if got := b.told(false); got.Requests != 2 || got.Opened != 3 || got.Refused != 2 {
		t.Errorf("counted %+v", got)
	}
}

func TestOutages(t *testing.T) {
	b := &backend{}
	b.begin(false)
	b.outages(time.Millisecond, 3)
	got := b.told(false)
	if len(got.Outages) != 3 || got.Met != 0 || slices.Min(got.Outages) < time.Millisecond {
		t.Errorf("outages %+v", got)
	}
}

// What is not installed is said, and fails nothing; what cannot be done too.
func TestTable(t *testing.T) {
	probe, hey, wrk := &peer{name: "probe", version: "this commit", golang: true}, &peer{name: "hey", needs: "build it"}, &peer{name: "wrk", version: "4", closed: true}
	p := plan{peers: []*peer{probe, hey, wrk}, rounds: 1, lasts: time.Second, outages: 300, idle: 10, what: "cpu,schedule,memory,outages"}
	all := runs{}
	for _, k := range p.kinds() {
		m := measured{took: 2 * time.Second, cpu: 100 * time.Millisecond, peak: 20 << 20, stolen: 0.01}
		m.count = count{Requests: 2000, Open: 10, Met: 300, Refused: 300, Outages: make([]time.Duration, 300)}
		m.result = result{Requests: 2300, Failed: 300}
		if k.length == time.Millisecond {
			m.count.Met = 100
		}
		for i := range 3 * scheduleRate {
			m.count.Arrivals = append(m.count.Arrivals, time.Duration(i)*time.Second/scheduleRate)
		}
		all[k] = map[*peer][]measured{probe: {m}, wrk: {m}}
		if k.what == "schedule" {
			m.result.Late = []time.Duration{1e6, 2e6, 3e6}
			all[k] = map[*peer][]measured{probe: {m}}
		}
	}
	table := table{plan: p, runs: all, begun: time.Unix(0, 0), command: "bench"}
	text := table.markdown()
	for _, want := range []string{
		"- hey: not measured: not installed (build it)\n", "| hey | not measured: not installed |", "| wrk | has no rate |",
		"| probe | 50.0 | 1000 | 50.0 | 1000 |", "| probe | 5000 | 0.000 ms | 0.000 ms | 0.000 ms | 1.000 ms | 2.000 ms | 3.000 ms |",
		"| probe | 10 | 20 | 2048.0 |", "| probe | new | 100 of 300 (28.8%) | 300 of 300 (99.0%) |", "| 2ms |", "1.0% and 1.0%",
	} {
		if want == "stolen" {
			continue
		}
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := write(path, "new\n"); err == nil {
		t.Error("a page that is not there")
	}
	for old, want := range map[string]string{
		"a\n" + tableBegins + "old\n" + tableEnds + "b\n": "a\n" + tableBegins + "new\n" + tableEnds + "b\n",
		"a\n": "",
	} {
		if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
		err := write(path, "new\n")
		got, _ := os.ReadFile(path)
		if (err == nil) != (want != "") || want != "" && string(got) != want {
			t.Errorf("%q: %v, %q", old, err, got)
		}
	}
}

// The clients that are packages do what they are told, and say it.
func TestOwnClients(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &backend{}
	b.begin(false)
	go b.accept(l)
	for _, fresh := range []bool{false, true} {
		job := task{Addr: l.Addr().String(), Rate: 100, Lasts: 500 * time.Millisecond, Conns: 2, New: fresh}
		got, err := probeClient(t.Context(), job)
		if err != nil || got.Requests == 0 || got.Failed != 0 || len(got.Late) != 3 {
			t.Errorf("probe, new %v: %+v, %v", fresh, got, err)
		}
		got, err = fortioClient(job)
		if err != nil || got.Requests == 0 || got.Failed != 0 {
			t.Errorf("fortio, new %v: %+v, %v", fresh, got, err)
		}
	}
}

// Each peer is asked for the same.
func TestArguments(t *testing.T) {
	job := task{Addr: "127.77.0.1:18077", Rate: 2000, Lasts: 8 * time.Second, Conns: 16}
	fresh, hold := job, job
	fresh.New, hold.Hold = true, true
	url := job.url()
	for name, c := range map[string]struct {
		args             func(task, string) []string
		kept, anew, held string
	}{
		"hey": {heyArgs, "-c 16 -disable-compression -z 8s -q 125 -t 10 " + url, "-c 16 -disable-compression -z 8s -q 125 -t 10 -disable-keepalive " + url, "-c 16 -disable-compression -n 16 -t 0 " + url},
		"vegeta": {vegetaArgs, "attack -rate 2000/s -duration 8s -workers 16 -http2=false -timeout 10s -output out",
			"attack -rate 2000/s -duration 8s -workers 16 -http2=false -timeout 10s -output out -keepalive=false",
			"attack -rate 2000/s -duration 8s -workers 16 -http2=false -timeout 10s -output out -max-workers 16 -timeout 1h"},
		"wrk": {wrkArgs, "-t1 -c 16 -d 8s --timeout 10s " + url, "-t1 -c 16 -d 8s --timeout 10s -H Connection: close " + url, "-t1 -c 16 -d 8s --timeout 10s --timeout 1h " + url},
		"h2load": {h2loadArgs, "--h1 -t 1 -c 16 -D 8s --rps 125 " + url, "--h1 -t 1 -c 16 -H Connection: close -n 16000 " + url,
			"--h1 -t 1 -c 16 -D 8s " + url},
	} {
		for i, want := range []string{c.kept, c.anew, c.held} {
			if got := strings.Join(c.args([]task{job, fresh, hold}[i], "out"), " "); got != want {
				t.Errorf("%s:\n%s, want\n%s", name, got, want)
			}
		}
	}
	arg, _ := json.Marshal(job)
	if err := ownMain(t.Context(), "probe", string(arg[1:])); err == nil {
		t.Error("a task that is none")
	}
}
