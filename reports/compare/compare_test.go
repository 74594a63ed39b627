// SPDX-License-Identifier: Apache-2.0

package compare_test

import (
	"bytes"
	"flag"
	"fmt"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/compare"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// run is a run of the reference on a real cluster, shortened.
func run(t *testing.T, changes ...func(*v1alpha1.ConformanceReport)) compare.Input {
	t.Helper()
	in, err := compare.Read("testdata/run.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(in.Report)
	}
	in.Report.Conclude()
	return in
}

func on(kubernetes, proxy string) func(*v1alpha1.ConformanceReport) {
	return func(r *v1alpha1.ConformanceReport) {
		r.Environment.Kubernetes, r.Environment.KubeProxyMode = kubernetes, proxy
		r.Environment.NodeImage = "lastcall.dev/node:" + kubernetes + "-fbdd139009b4"
	}
}

// slower puts all T_lastnew later, as a slower service network does.
func slower(d time.Duration) func(*v1alpha1.ConformanceReport) {
	return func(r *v1alpha1.ConformanceReport) {
		for i := range r.Scenarios {
			for k := range r.Scenarios[i].Terminations {
				t := &r.Scenarios[i].Terminations[k]
				if t.LastNew == nil || t.Endpoint == nil {
					continue
				}
				t.LastNew.At += v1alpha1.Duration(d)
				took := max(0, t.LastNew.At-t.Endpoint.At)
				t.Propagation = &took
			}
		}
		r.Propagation.Median += v1alpha1.Duration(d)
		r.Propagation.Worst += v1alpha1.Duration(d)
	}
}

func judge(id string, v spec.Verdict, seen string) func(*v1alpha1.ConformanceReport) {
	return func(r *v1alpha1.ConformanceReport) {
		for i := range r.Behaviours {
			b := &r.Behaviours[i]
			if b.ID != id {
				continue
			}
			b.Verdict = v
			switch v {
			case spec.Fail, spec.Inconclusive:
				b.Findings[0].Verdict, b.Findings[0].Actual = v, seen
			default:
				b.Reason, b.Findings = seen, nil
			}
		}
	}
}

// loses makes a rollout lose requests.
func loses(lost, affected int) func(*v1alpha1.ConformanceReport) {
	return func(r *v1alpha1.ConformanceReport) {
		judge("rollout.zero-failed", spec.Fail, fmt.Sprintf("%d of 42506 requests failed, in %d of 8 terminations", lost, affected))(r)
		for _, b := range r.Behaviours {
			if b.ID == "rollout.zero-failed" {
				b.Findings[0].Bounds = &spec.Bounds{
					Terminations: 8, Affected: affected, PerTermination: 0.6509, Requests: 42473, Lost: lost, PerRequest: 0.0004,
				}
			}
		}
		for i := range r.Scenarios {
			if s := &r.Scenarios[i]; strings.HasPrefix(s.Name, "rollout") {
				s.Streams[0].Failed = lost
			}
		}
	}
}

func matrix(t *testing.T) []compare.Input {
	return []compare.Input{
		run(t, on("v1.34.4", "iptables")),
		run(t, on("v1.34.4", "nftables"), slower(-20*time.Millisecond)),
		run(t, on("v1.35.1", "iptables"), slower(30*time.Millisecond)),
		run(t, on("v1.35.1", "nftables"), loses(7, 2)),
		run(t, on("v1.36.0", "iptables"), judge("endpoints.prefers-ready", spec.Skipped, "the kernel has no ip_vs")),
		run(t, on("v1.36.0", "nftables"), func(r *v1alpha1.ConformanceReport) { r.Behaviours = r.Behaviours[:6] }),
	}
}

// tenRuns are ten runs on the same cluster, one of them with too little seen.
func tenRuns(t *testing.T) []compare.Input {
	var in []compare.Input
	for n := range 10 {
		in = append(in, run(t, slower(time.Duration(n)*time.Millisecond)))
	}
	in[7] = run(t, judge("pod.inflight-completes", spec.Inconclusive, "only 3 requests were in flight at D"))
	return in
}

func of(t *testing.T, in []compare.Input) *compare.Comparison {
	t.Helper()
	c, err := compare.Of(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGolden(t *testing.T) {
	for file, tc := range map[string]struct {
		in    []compare.Input
		write func(io.Writer, *compare.Comparison) error
	}{
		"matrix.txt":   {matrix(t), compare.WriteText},
		"matrix.md":    {matrix(t), compare.WriteMarkdown},
		"matrix.yaml":  {matrix(t)[:2], compare.WriteYAML},
		"ten.txt":      {tenRuns(t), compare.WriteText},
		"ten.md":       {tenRuns(t), compare.WriteMarkdown},
		"same.txt":     {[]compare.Input{run(t), run(t)}, compare.WriteText},
		"findings.md":  {withConnections(matrix(t)), compare.WriteFindings},
		"findings2.md": {tenRuns(t), compare.WriteFindings},
	} {
		t.Run(file, func(t *testing.T) {
			var got bytes.Buffer
			if err := tc.write(&got, of(t, tc.in)); err != nil {
				t.Fatal(err)
			}
			golden(t, file, got.String())
		})
	}
}

// golden holds what was written against a file, which -update writes anew.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("not as in %s (-want +got); `go test ./reports/compare -update` writes it anew\n%s", path, d)
	}
	if strings.HasSuffix(file, ".txt") {
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

func withConnections(in []compare.Input) []compare.Input {
	for i := range in[:4] {
		in[i].Report.Scenarios[1].Connections = &v1alpha1.Connections{Terminations: 11, Open: 40 + i, Survived: 38, Reset: i, Cut: 1}
	}
	return in
}

func TestWorse(t *testing.T) {
	const run0 = "the run as a whole"
	for _, tc := range []struct {
		name          string
		first, second func(*v1alpha1.ConformanceReport)
		changed       int
		worse         []string
	}{
		{"the same", nil, nil, 0, nil},
		{"fails", nil, loses(1, 1), 2, []string{"rollout.zero-failed", run0}},
		{"mended", loses(1, 1), nil, 2, nil},
		{"less sure", nil, judge("pod.inflight-completes", spec.Inconclusive, "too little"), 2, []string{"pod.inflight-completes", run0}},
		{"skipped", nil, judge("pod.inflight-completes", spec.Skipped, "not here"), 1, nil},
		{"skipped before", judge("rollout.zero-failed", spec.Skipped, "not here"), loses(1, 1), 2, []string{"rollout.zero-failed", run0}},
		{"broke", judge("pod.inflight-completes", spec.Inconclusive, "too little"),
			judge("pod.inflight-completes", spec.Error, "broke"), 2, []string{"pod.inflight-completes", run0}},
		{"a vanished behaviour", nil, func(r *v1alpha1.ConformanceReport) { r.Behaviours = r.Behaviours[1:] }, 1, []string{"endpoints.conditions"}},
		{"a behaviour that was not selected", nil, func(r *v1alpha1.ConformanceReport) {
			r.Behaviours, r.Settings.Labels = r.Behaviours[1:], []string{"other"}
		}, 0, nil},
		{"a vanished behaviour, and all were selected", nil, func(r *v1alpha1.ConformanceReport) {
			r.Behaviours, r.Settings.Labels, r.Settings.Selected = r.Behaviours[1:], nil, nil
		}, 1, []string{"endpoints.conditions"}},
		{"a vanished behaviour that was selected by its name", nil, func(r *v1alpha1.ConformanceReport) {
			r.Settings.Labels, r.Settings.Selected = nil, []string{r.Behaviours[0].ID}
			r.Behaviours = r.Behaviours[1:]
		}, 1, []string{"endpoints.conditions"}},
		{"a behaviour that the first did not select", func(r *v1alpha1.ConformanceReport) {
			r.Behaviours, r.Settings.Labels = r.Behaviours[:6], []string{"other"}
		}, loses(1, 1), 0, nil},
		{"a new behaviour that fails", func(r *v1alpha1.ConformanceReport) { r.Behaviours = r.Behaviours[:6] }, loses(1, 1), 2, []string{run0}},
		{"a blind control", nil, judge("pod.abrupt-death", spec.Fail, "blind"), 2, []string{"pod.abrupt-death", run0}},
		{"a run that broke", nil, func(r *v1alpha1.ConformanceReport) { r.Errors = []string{"the egress guard leaks"} }, 1, []string{run0}},
		{"a stricter run", nil, func(r *v1alpha1.ConformanceReport) {
			r.Settings.Strict, r.Errors = true, []string{"the egress guard leaks"}
		}, 0, nil},
		{"a warning", should, func(r *v1alpha1.ConformanceReport) { should(r); loses(1, 1)(r) }, 1, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nothing := func(*v1alpha1.ConformanceReport) {}
			if tc.first == nil {
				tc.first = nothing
			}
			if tc.second == nil {
				tc.second = nothing
			}
			c := of(t, []compare.Input{run(t, tc.first), run(t, tc.second)})
			if c.Changed() != tc.changed || !slices.Equal(c.Worse, tc.worse) {
				t.Errorf("%d changed, worse %v; want %d, %v", c.Changed(), c.Worse, tc.changed, tc.worse)
			}
			if tc.changed > 0 && !c.Behaviours[0].Changed {
				t.Error("what changed comes first")
			}
		})
	}
}

// A cell is held against what was written down of it: that a fault is noticed no
// more is worse, and that a behaviour passes is not better.
func TestWorseCells(t *testing.T) {
	fails := v1alpha1.MatrixCell{Behaviour: "pod.x", Verdict: spec.Fail, Expected: spec.Fail, Culprits: 3}
	passes := v1alpha1.MatrixCell{Behaviour: "pod.x", Verdict: spec.Pass, Expected: spec.Fail}
	doubt := v1alpha1.MatrixCell{Behaviour: "pod.x", Verdict: spec.Inconclusive, Expected: spec.Fail, Doubt: true, Reason: "starved"}
	elsewise := v1alpha1.MatrixCell{Behaviour: "pod.x", Verdict: spec.Inconclusive, Expected: spec.Inconclusive, Doubt: true}
	meant := v1alpha1.MatrixCell{Behaviour: "pod.x", Verdict: spec.Inconclusive, Expected: spec.Inconclusive}
	whole := func(kind string, cells ...v1alpha1.MatrixCell) compare.Input {
		return run(t, func(r *v1alpha1.ConformanceReport) {
			r.Behaviours = nil
			r.Matrix = &v1alpha1.Matrix{Kind: kind, Rows: []v1alpha1.MatrixRow{{Fault: "f", Cells: cells}}}
			for _, c := range cells {
				switch {
				case c.Doubt:
					r.Matrix.Doubts = append(r.Matrix.Doubts, "pod.x under f")
				case c.Verdict != c.Expected:
					r.Matrix.Problems = append(r.Matrix.Problems, "pod.x under f")
				}
			}
		})
	}
	const cell = "pod.x under f"
	for _, tc := range []struct {
		name          string
		first, second compare.Input
		changed       int
		worse         string // what begins with it is worse too
	}{
		{"the same", whole("full", fails), whole("full", fails), 0, ""},
		{"noticed no more", whole("full", fails), whole("full", passes), 2, cell},
		{"noticed now", whole("full", passes), whole("full", fails), 2, ""},
		{"in doubt", whole("full", fails), whole("full", doubt), 2, cell},
		{"for another reason", whole("full", meant), whole("full", elsewise), 2, cell},
		{"not recorded any more", whole("full", fails), whole("full"), 1, cell},
		{"another kind of matrix", whole("full", fails), whole("diagonal"), 0, ""},
		{"a run about a system beside it", run(t), whole("full", passes), 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := of(t, []compare.Input{tc.first, tc.second})
			if c.Changed() != tc.changed || slices.Contains(c.Worse, cell) != (tc.worse != "") || tc.worse == "" && len(c.Worse) > 0 {
				t.Errorf("%d changed, worse %v; want %d, %q", c.Changed(), c.Worse, tc.changed, tc.worse)
			}
			var b bytes.Buffer
			if err := compare.WriteText(&b, c); err != nil {
				t.Fatal(err)
			}
			if shown := strings.Contains(b.String(), "FAULT  "+cell); shown != (tc.changed > 0) {
				t.Errorf("its row is shown: %t\n%s", shown, b.String())
			}
		})
	}
}

// Health ports, questions to DNS, streams to one node and the scout are no
// attempts through a Service: they are right to fail.
func TestThroughServices(t *testing.T) {
	const n = 10
	var added []v1alpha1.Stream
	for _, name := range []string{
		"direct/http1/new/get", "service-local/http1/new/get", "nodeport-local/http1/new/get", "publishing/http1/new/get",
		"health/http1/new/check", "headless/dns/new/lookup", "headless-publishing/dns/new/lookup", "scout/service/http1/new/get",
		"service/http1/new/get", "sticky/http1/new/get", "nodeport/http1/new/get", "balanced/http1/new/get/delay=20ms",
	} {
		added = append(added, v1alpha1.Stream{Name: name, Attempts: n, Failed: 1})
	}
	only := func(r *v1alpha1.ConformanceReport) {
		r.Scenarios = []v1alpha1.Scenario{{Name: "x", Behaviours: []string{"endpoints.conditions"}, Streams: added}}
	}
	got := of(t, []compare.Input{run(t, only), run(t, only)}).Reports[0]
	if got.Attempts != 4*n || got.Failed != 4 {
		t.Errorf("%d of %d failed, want 4 of %d", got.Failed, got.Attempts, 4*n)
	}
}

// The fallback to terminating endpoints is no propagation, however long it is.
func TestPropagationIsTold(t *testing.T) {
	fallback := func(r *v1alpha1.ConformanceReport) {
		at := func(d time.Duration) *v1alpha1.Instant { return &v1alpha1.Instant{At: v1alpha1.Duration(d)} }
		r.Scenarios = append(r.Scenarios, v1alpha1.Scenario{Name: "scale-down", Behaviours: []string{"endpoints.conditions"},
			Terminations: []v1alpha1.Termination{{UID: "f", Endpoint: at(time.Second), LastNew: at(9 * time.Second)}}})
	}
	var with, without bytes.Buffer
	for b, in := range map[*bytes.Buffer]compare.Input{&with: run(t, fallback), &without: run(t)} {
		if err := compare.WriteFindings(b, of(t, []compare.Input{in, in})); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(without.String(), with.String()); d != "" {
		t.Error(d)
	}
}

func should(r *v1alpha1.ConformanceReport) {
	for i := range r.Behaviours {
		r.Behaviours[i].Level = spec.Should
	}
}

func TestNames(t *testing.T) {
	fault := func(r *v1alpha1.ConformanceReport) { r.Settings.Fault = "exit-on-sigterm" }
	ip := func(families ...string) func(*v1alpha1.ConformanceReport) {
		return func(r *v1alpha1.ConformanceReport) { r.Environment.IPFamilies = families }
	}
	for _, tc := range []struct {
		in   []compare.Input
		want []string
	}{
		{[]compare.Input{run(t), run(t)}, []string{"run 1", "run 2"}},
		{matrix(t)[:3], []string{"1.34 iptables", "1.34 nftables", "1.35 iptables"}},
		{[]compare.Input{run(t, on("v1.34.4", "iptables")), run(t, on("v1.34.11", "iptables"))}, []string{"1.34.4", "1.34.11"}},
		{[]compare.Input{run(t), run(t, fault), run(t, fault)}, []string{"no fault", "exit-on-sigterm run 1", "exit-on-sigterm run 2"}},
		{[]compare.Input{run(t), run(t, ip("IPv6")), run(t, ip("IPv4"))}, []string{"dual", "ipv6", "ipv4"}},
	} {
		var got []string
		for _, r := range of(t, tc.in).Reports {
			got = append(got, r.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// What a run records of faults, besides, is not the system's.
func TestFaultsBesides(t *testing.T) {
	broken := func(r *v1alpha1.ConformanceReport) {
		for _, s := range slices.Clone(r.Scenarios) {
			s.Name, s.Fault = s.Name+"-x", "exit-on-sigterm"
			r.Scenarios = append(r.Scenarios, s)
		}
	}
	c := of(t, []compare.Input{run(t), run(t, broken)})
	if a, b := c.Reports[0], c.Reports[1]; a.Attempts != b.Attempts || a.Attempts == 0 {
		t.Errorf("%d attempts, and %d with faults recorded besides", a.Attempts, b.Attempts)
	}
	var with, without bytes.Buffer
	if err := compare.WriteFindings(&without, of(t, []compare.Input{run(t), run(t)})); err != nil {
		t.Fatal(err)
	}
	if err := compare.WriteFindings(&with, c); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(without.String(), with.String()); d != "" {
		t.Error(d)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "pod.yaml")
	broken := filepath.Join(dir, "broken.yaml")
	for file, content := range map[string]string{foreign: "apiVersion: v1\nkind: Pod\n", broken: "{"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		foreign: `it is "v1" "Pod"`, broken: "this is no report", dir: "no report in", filepath.Join(dir, "none"): "no such file",
	} {
		if _, err := compare.Read(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", path, err, want)
		}
	}
	if _, err := compare.Of([]compare.Input{run(t)}); err == nil {
		t.Error("one report is no comparison")
	}
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		dir: dir, filepath.Join(dir, v1alpha1.File): dir, filepath.Join(dir, "copied.yaml"): "", v1alpha1.File: ".", "": "",
	} {
		if got := compare.Directory(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestPicture(t *testing.T) {
	var b bytes.Buffer
	if err := compare.WritePNG(&b, of(t, matrix(t))); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if img.Bounds().Dx() < 800 {
		t.Errorf("%v", img.Bounds())
	}
	none := func(r *v1alpha1.ConformanceReport) { r.Scenarios = nil }
	empty := of(t, []compare.Input{run(t, none), run(t, none)})
	if err := compare.WritePNG(io.Discard, empty); err == nil {
		t.Error("a picture of nothing")
	}
	if err := compare.WriteFindings(io.Discard, empty); err == nil {
		t.Error("a table of nothing")
	}
}
