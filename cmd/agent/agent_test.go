// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/cmd/agent/cli"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// patience bounds what is waited for. It costs nothing where all is well, and a
// machine may stand still for seconds.
const patience = time.Minute

const pod = "11111111-2222-3333-4444-555555555555"

var build = sync.OnceValues(func() (string, error) {
	return gexec.BuildWithEnvironment("github.com/lastcall-dev/lastcall/cmd/agent", []string{"CGO_ENABLED=0"}, "-trimpath")
})

func TestMain(m *testing.M) {
	code := m.Run()
	gexec.CleanupBuildArtifacts()
	os.Exit(code)
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// proc is a running agent.
type proc struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	log    bytes.Buffer
	addr   chan string
	exited chan error
}

var listening = regexp.MustCompile(`(?:channel on|on) (\S+:\d+)$`)

// launch starts a command and waits until it says where it listens.
func launch(t *testing.T, name string, args ...string) *proc {
	t.Helper()
	p := &proc{cmd: exec.Command(name, args...), addr: make(chan string, 1), exited: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), "LASTCALL_POD_UID="+pod, "LASTCALL_NODE=node")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			p.mu.Lock()
			p.log.WriteString(lines.Text() + "\n")
			p.mu.Unlock()
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case p.addr <- m[1]:
				default:
				}
			}
		}
		p.exited <- p.cmd.Wait()
	}()
	return p
}

func (p *proc) listens(t *testing.T) string {
	t.Helper()
	select {
	case a := <-p.addr:
		return a
	case err := <-p.exited:
		t.Fatalf("it exited: %v: %s", err, p.text())
	case <-time.After(patience):
		t.Fatalf("it does not listen: %s", p.text())
	}
	return ""
}

func (p *proc) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *proc) exit(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.exited:
		return err
	case <-time.After(patience):
		t.Fatalf("it did not exit within %v: %s", patience, p.text())
	}
	return nil
}

// As PID 1 of a namespace a process without a handler never gets a SIGTERM.
// The agent drains, and exits with 0.
func TestPID1Drains(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a PID namespace needs root")
	}
	if err := exec.Command("unshare", "--pid", "--fork", "true").Run(); err != nil {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	dir := t.TempDir()
	p := launch(t, "unshare", "--pid", "--fork", "--kill-child", binary(t), "echo", "--listen", "127.0.0.1:0", "--ledger", dir,
		"--min-drain", "10s", "--unready", "300ms", "--deadline", "60s")
	addr := p.listens(t)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.cmd.Process.Pid, p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(children), &pid); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !regexp.MustCompile(`NSpid:\t\d+(\t\d+)*\t1\n`).Match(status) {
		t.Fatalf("the agent is not PID 1: %v\n%s", err, status)
	}
	// The kernel's own word: SIGTERM (15) and SIGINT (2) are caught.
	var caught uint64
	if _, err := fmt.Sscanf(string(regexp.MustCompile(`SigCgt:\t(\w+)`).FindSubmatch(status)[1]), "%x", &caught); err != nil || caught&(1<<14) == 0 || caught&(1<<1) == 0 {
		t.Errorf("caught signals: %x, %v", caught, err)
	}
	begin := time.Now()
	for range 2 {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	// The signal is delivered when the kernel comes to it: the app itself
	// says when it has.
	path := filepath.Join(dir, pod+".jsonl")
	for said, _ := os.ReadFile(path); !bytes.Contains(said, []byte(timeline.DrainStart)); said, _ = os.ReadFile(path) {
		if time.Since(begin) > patience {
			t.Fatalf("the drain did not begin: %s", p.text())
		}
		<-time.After(5 * time.Millisecond)
	}
	// It listens for 10 s from then on: this machine may stand still meanwhile.
	resp, err := http.Get("http://" + addr + "/work?bytes=10")
	if err != nil {
		t.Fatalf("after SIGTERM: %v", err)
	}
	resp.Body.Close()
	if resp.Header.Get("X-Lastcall-Phase") != "draining" || resp.Header.Get("X-Lastcall-Pod") != pod {
		t.Errorf("%v", resp.Header)
	}
	if err := p.exit(t); err != nil {
		t.Errorf("exit: %v: %s", err, p.text())
	}
	if took := time.Since(begin); took < 10*time.Second {
		t.Errorf("it left after %v", took)
	}
	ledger, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []timeline.EventKind{timeline.DrainStart, timeline.DrainUnready, timeline.DrainListenerClosed, timeline.DrainEnd} {
		if bytes.Count(ledger, []byte(fmt.Sprintf(`"kind":%q`, kind))) != 1 {
			t.Errorf("%s is not once in the ledger: %s", kind, ledger)
		}
	}
}

// world is a run's authority and the credentials of its agents on disk.
type world struct {
	agents, runner string // folders
	client         control.Credentials
}

func newWorld(t *testing.T) world {
	t.Helper()
	a, err := control.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := a.Server()
	if err != nil {
		t.Fatal(err)
	}
	client, err := a.Client()
	if err != nil {
		t.Fatal(err)
	}
	w := world{agents: t.TempDir(), runner: t.TempDir(), client: client}
	for dir, c := range map[string]control.Credentials{w.agents: server, w.runner: client} {
		for name, b := range c.Files() {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// history is what a client of an agent received.
type history struct {
	mu sync.Mutex
	timeline.Timeline
}

func (h *history) count(f func(*timeline.Timeline) int) func() int {
	return func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return f(&h.Timeline)
	}
}

func follow(t *testing.T, addr string, creds control.Credentials) (*control.Client, *history) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := control.Dial(ctx, addr, nil, creds)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{}
	followed := make(chan error, 1)
	fctx, stop := context.WithCancel(context.Background())
	go func() {
		followed <- c.Follow(fctx, func(r timeline.Record) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.Add(r)
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-followed; err != nil {
			t.Errorf("following %s: %v", addr, err)
		}
		c.Close()
	})
	return c, h
}

// The three agents together, through one termination: what the clients saw
// and what the ledger says are the same.
func TestProbeEchoWitness(t *testing.T) {
	for _, way := range []string{"ledger", "collector"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			w, bin, dir := newWorld(t), binary(t), t.TempDir()
			witnessArgs := []string{"witness", "--listen", "127.0.0.1:0", "--tls", w.agents, "--ledger", dir, "--spool", t.TempDir()}
			// The load goes on into the drain, and has ended long before the
			// listener closes, also on a machine that stands still for seconds.
			echoArgs := []string{"echo", "--listen", "127.0.0.1:0", "--min-drain", "14s", "--unready", "1s", "--deadline", "60s"}
			if way == "ledger" {
				echoArgs = append(echoArgs, "--ledger", dir)
			} else {
				addr := freeAddr(t)
				witnessArgs = append(witnessArgs, "--collect", addr)
				echoArgs = append(echoArgs, "--collector", addr, "--tls", w.runner)
			}
			witness := launch(t, bin, witnessArgs...)
			_, seen := follow(t, witness.listens(t), w.client)
			echo := launch(t, bin, echoArgs...)
			target := echo.listens(t)
			probe := launch(t, bin, "probe", "--listen", "127.0.0.1:0", "--tls", w.agents, "--spool", t.TempDir())
			client, samples := follow(t, probe.listens(t), w.client)

			var streams []load.Stream
			for _, p := range []load.Profile{
				{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
				{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 20},
				{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 20},
				{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 20},
				{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: time.Second}, Rate: 4},
				{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.New, Op: flow.Upload, Takes: time.Second}, Rate: 4},
				{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Continue, Takes: time.Second}, Rate: 4},
			} {
				p.Path = flow.Direct
				streams = append(streams, load.Stream{Name: flow.To(p.Flow, ""), Profile: p, Addr: target, Tolerance: 20 * time.Millisecond, Timeout: patience, Seed: 1})
			}
			ctx := t.Context()
			if err := client.Start(ctx, streams...); err != nil {
				t.Fatal(err)
			}
			g.Eventually(samples.count(func(t *timeline.Timeline) int { return len(t.Samples) })).WithTimeout(patience).Should(gomega.BeNumerically(">", 100))
			if err := echo.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			after := timeline.Monotonic()
			g.Eventually(samples.count(func(t *timeline.Timeline) (n int) {
				for _, s := range t.Samples {
					if s.Start > after {
						n++
					}
				}
				return n
			})).WithTimeout(patience).Should(gomega.BeNumerically(">", 80))
			if err := client.Stop(ctx); err != nil {
				t.Fatal(err)
			}
			if err := client.WaitIdle(ctx); err != nil {
				t.Fatal(err)
			}
			if err := client.CatchUp(ctx); err != nil {
				t.Fatal(err)
			}
			if err := echo.exit(t); err != nil {
				t.Errorf("echo: %v: %s", err, echo.text())
			}
			tails := func(t *timeline.Timeline) int { return len(t.EventsOf(timeline.LedgerTail, pod)) }
			g.Eventually(seen.count(tails)).WithTimeout(patience).Should(gomega.Equal(1))

			begun, done, draining := map[string]int{}, map[string]bool{}, 0
			seen.mu.Lock()
			for _, e := range seen.Ledger {
				if e.Step == timeline.Begin {
					begun[e.ID]++
				} else {
					done[e.ID] = e.Whole
				}
			}
			tail := seen.EventsOf(timeline.LedgerTail, pod)[0].Attrs["why"]
			start := seen.EventsOf(timeline.DrainStart, pod)[0].At
			seen.mu.Unlock()
			samples.mu.Lock()
			defer samples.mu.Unlock()
			for _, s := range samples.Samples {
				// net/http gives a new HTTP/2 connection 2 s for its SETTINGS. An echo
				// that stood still for as long has closed it, with nothing read.
				if s.Stream.Flow().Protocol == flow.H2C && s.Nth == 1 && (s.Outcome == timeline.Reset || s.Outcome == timeline.Closed) &&
					s.End-s.Start >= 2*time.Second && begun[s.ID] == 0 {
					t.Logf("the echo stood still: %+v", s)
					continue
				}
				if s.Failed() || s.Server != pod {
					t.Errorf("%+v", s)
				}
				if begun[s.ID] != 1 || !done[s.ID] {
					t.Errorf("%s: begun %d times, whole %v", s.ID, begun[s.ID], done[s.ID])
				}
				if s.Start > start {
					draining++
				}
				delete(begun, s.ID)
			}
			if len(begun) > 0 || tail != "drain-end" || draining < 50 {
				t.Errorf("%d in the ledger that no client knows; tail %q; %d samples after D", len(begun), tail, draining)
			}
			t.Logf("%d samples, %d after D", len(samples.Samples), draining)
			if _, err := client.Signal(ctx, control.Signal{Pod: pod, Signal: "KILL"}); err == nil {
				t.Error("a probe signals pods")
			}
			// Agents leave in order: SIGTERM, 0, and Follow ends without an error.
			for _, p := range []*proc{probe, witness} {
				if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if err := p.exit(t); err != nil {
					t.Errorf("exit: %v: %s", err, p.text())
				}
			}
		})
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A witness whose pod isn't there says so in a way that the caller can test.
func TestWitnessWithoutThePod(t *testing.T) {
	w := newWorld(t)
	witness := launch(t, binary(t), "witness", "--listen", "127.0.0.1:0", "--tls", w.agents, "--ledger", t.TempDir(), "--spool", t.TempDir())
	c, _ := follow(t, witness.listens(t), w.client)
	if _, err := c.Signal(t.Context(), control.Signal{Pod: "no-such", Signal: "TERM"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	h, err := c.Hello(t.Context())
	if err != nil || h.Role != "witness" || h.Node != "node" || h.Pod != pod {
		t.Errorf("%+v %v", h, err)
	}
}

// Pressure lasts until SIGTERM, and leaves one record: its summary.
func TestPressure(t *testing.T) {
	g := gomega.NewWithT(t)
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, "ok")
	}))
	defer srv.Close()
	out := filepath.Join(t.TempDir(), "summary")
	args := []string{"pressure", "--name=hey", "--addr=" + srv.Listener.Addr().String(), "--conns=2", "--qps=100"}
	summary := func(line []byte) {
		t.Helper()
		r, err := timeline.ParseRecord(line)
		if err != nil || r.Event == nil || bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("%q: %v", line, err)
		}
		e := *r.Event
		cpu, err := time.ParseDuration(e.Attrs["cpu"])
		if err != nil || cpu <= 0 || e.Kind != timeline.Pressure || e.Name != "hey" || e.Attrs["requests"] == "0" || e.Attrs["errors"] != "0" || e.Attrs["conns"] != "2" {
			t.Errorf("%+v: %v", e, err)
		}
		if why, early := e.Attrs["stopped"]; early {
			t.Errorf("SIGTERM is its end, and it was stopped: %s", why)
		}
	}
	more := func() {
		t.Helper()
		from := asked.Load()
		g.Eventually(asked.Load).WithTimeout(patience).Should(gomega.BeNumerically(">", from+20))
	}

	p := launch(t, binary(t), append(args, "--out="+out)...)
	more()
	if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
		t.Errorf("there is a summary before the end: %q", left)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.exit(t); err != nil {
		t.Errorf("exit: %v: %s", err, p.text())
	}
	line, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	summary(line)
	if left, _ := filepath.Glob(out + "*"); len(left) != 1 {
		t.Errorf("it left %q", left)
	}

	var stdout, stderr bytes.Buffer
	signals, code := make(chan os.Signal), make(chan int, 1)
	go func() { code <- cli.Run(args, signals, &stdout, &stderr) }()
	more()
	signals <- syscall.SIGTERM
	if got := <-code; got != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d: %s", got, stderr.String())
	}
	summary(stdout.Bytes())
}

// Bad input: exit code 2, and a line that names what to do.
func TestBadInput(t *testing.T) {
	t.Setenv("LASTCALL_POD_UID", "")
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"version", 0, ""},
		{"frob", 2, "gateway, peer, pressure, "},
		{"echo --nonsense", 2, "unknown flag"},
		{"echo extra --ledger " + dir, 2, "flags only"},
		{"echo", 2, "--ledger"},
		{"echo --ledger " + dir + " --collector x:1", 2, "either"},
		{"echo --collector x:1", 2, "--tls"},
		{"echo --ledger " + dir, 1, "LASTCALL_POD_UID"},
		{"echo --pod-uid x --ledger " + dir + " --fault frob", 2, "exit-on-sigterm"},
		{"echo --pod-uid x --ledger " + dir + " --deadline 1s", 2, "deadline"},
		{"echo --pod-uid x --ledger " + dir + " --fault listener-before-ready", 2, "--probe-listen"},
		{"gateway --pod-uid x --ledger " + dir, 2, "at least one of --http1"},
		{"gateway --pod-uid x --ledger " + dir + " --http1 127.0.0.1:0", 2, "--backends"},
		{"gateway --pod-uid x --ledger " + dir + " --tcp 127.0.0.1:0", 2, "--tcp-backends"},
		{"gateway --pod-uid x --ledger " + dir + " --tls 127.0.0.1:0 --backends x:1", 2, "--cert and --key"},
		{"gateway --pod-uid x --ledger " + dir + " --http1 127.0.0.1:0 --backends x:1 --admin :9000", 2, "loopback"},
		{"gateway --pod-uid x --ledger " + dir + " --http1 127.0.0.1:0 --backends x:1 --deadline 1s", 2, "deadline"},
		{"gateway --http1 127.0.0.1:0 --backends x:1", 2, "--ledger"},
		{"gateway --collector x:1", 2, "--collector-tls"},
		{"gateway --fault frob", 2, "goaway-final-only"},
		{"probe", 2, "--tls"},
		{"probe --spool " + dir + " --tls " + dir, 1, "tls.key"},
		{"witness", 2, "--ledger"},
		{"pressure --conns x --addr 127.0.0.1:1", 2, "invalid argument"},
		{"pressure 127.0.0.1:1", 2, "flags only"},
		{"pressure", 1, "want an IP and a port"},
		{"pressure --addr 127.0.0.1:1 --conns 0", 1, "connections"},
		{"pressure --addr 127.0.0.1:1 --qps 10 --at-most 1s", 1, "a longer run"},
		{"shutdown --done x --at-most 1s", 2, "--post"},
		{"shutdown-manager --done x", 2, "--at-most"},
	} {
		var stdout, stderr bytes.Buffer
		got := cli.Run(strings.Fields(c.args), make(chan os.Signal), &stdout, &stderr)
		if got != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("agent %s: %d, %s", c.args, got, stderr.String())
		}
	}
	var out bytes.Buffer
	if cli.Run([]string{"version"}, nil, &out, &out) != 0 || !strings.Contains(out.String(), "go1") {
		t.Errorf("version: %s", out.String())
	}
}
