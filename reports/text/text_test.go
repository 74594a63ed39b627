// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden renders each testdata/*.yaml and compares it with the .txt.
// A known deviation is a failure that says so, with its reason, and one that passed is told.
func TestKnownDeviations(t *testing.T) {
	r := &v1alpha1.ConformanceReport{
		Behaviours: []v1alpha1.Behaviour{
			{ID: "a.known", Level: spec.Must, Profile: spec.Gateway, Verdict: spec.Fail, Recorded: true},
			{ID: "a.passed", Level: spec.Must, Profile: spec.Gateway, Verdict: spec.Pass, Recorded: true},
		},
		Deviations: []v1alpha1.Deviation{{Behaviour: "a.known", Reason: "by design", Link: "https://example.com/1"}, {Behaviour: "a.passed", Reason: "it did not"}},
	}
	r.Conclude()
	var b bytes.Buffer
	if err := text.Write(&b, r, text.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Fail, known", "--- FAIL, KNOWN a.known (MUST)", "Known:     by design (https://example.com/1)",
		"Known: a.passed is listed as a known deviation, and it passed: remove it", "FAIL: 1 passed, 1 failed (1 known)", "(exit code 0)",
		"gateway nonconformant (1 of 2 MUSTs passed)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no reports to render: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			in, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			r, err := yaml.Read(in)
			if err != nil {
				t.Fatal(err)
			}
			r.Conclude()
			var got bytes.Buffer
			if err := text.Write(&got, r, text.Options{Dir: "lastcall-report/run"}); err != nil {
				t.Fatal(err)
			}
			golden := file[:len(file)-len(".yaml")] + ".txt"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Errorf("not as in %s (-want +got); `go test ./reports/text -update` writes it anew\n%s", golden, d)
			}
		})
	}
}

// What is said of one behaviour alone is what the whole report says of it.
func TestBehavioursAlone(t *testing.T) {
	for verdict, says := range map[spec.Verdict]string{
		spec.Fail: "--- FAIL pod.x (MUST)", spec.Inconclusive: "--- INCONCLUSIVE pod.x (MUST)", spec.Error: "--- ERROR pod.x (MUST)",
		spec.Skipped: "--- SKIPPED pod.x (MUST)", spec.Pass: "  pod.x: It holds\n",
	} {
		r := &v1alpha1.ConformanceReport{Behaviours: []v1alpha1.Behaviour{{
			ID: "pod.x", Title: "It holds", Level: spec.Must, Verdict: verdict, Recorded: true, Reason: "so it was",
			Findings: []spec.Finding{{Check: "c", Verdict: verdict, Actual: "seen", Evidence: []spec.Count{{Name: "requests", N: 3, Floor: 2}}}},
		}}}
		var alone, whole bytes.Buffer
		if err := text.Behaviours(&alone, r, text.Options{Dir: "d"}); err != nil {
			t.Fatal(err)
		}
		if err := text.Write(&whole, r, text.Options{Dir: "d"}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(alone.String(), says) || !strings.Contains(whole.String(), alone.String()) {
			t.Errorf("%s: alone it is\n%s\nof all this:\n%s", verdict, &alone, &whole)
		}
	}
}

func TestColour(t *testing.T) {
	r := &v1alpha1.ConformanceReport{Behaviours: []v1alpha1.Behaviour{{ID: "pod.x", Level: spec.Must, Verdict: spec.Pass}}}
	r.Conclude()
	for _, colour := range []bool{false, true} {
		var b bytes.Buffer
		if err := text.Write(&b, r, text.Options{Colour: colour}); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(b.Bytes(), []byte("\x1b[")); got != colour {
			t.Errorf("colour %v: escapes %v", colour, got)
		}
	}
	if text.Terminal(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
}

// A failure of the suite's own pods on a cluster is told as the cluster's; one of a
// broken component, of a vendor's or of what carries the traffic is not.
func TestWhosePods(t *testing.T) {
	for name, c := range map[string]struct {
		id, stage, fault, project string
		want                      bool
	}{
		"ours":            {"pod.inflight-completes", "kind", "", "reference", true},
		"on a host":       {"pod.inflight-completes", "host", "", "reference", false},
		"broken by us":    {"pod.inflight-completes", "kind", "cut-bodies", "reference", false},
		"a vendor's":      {"pod.inflight-completes", "kind", "", "haproxy", false},
		"the network's":   {"endpoints.prefers-ready", "kind", "", "reference", false},
		"the whole thing": {"rollout.zero-failed", "cluster", "", "reference", true},
	} {
		r := &v1alpha1.ConformanceReport{Stage: c.stage}
		r.Settings.Fault, r.Implementation.Project = spec.Fault(c.fault), c.project
		r.Behaviours = []v1alpha1.Behaviour{{ID: c.id, Level: spec.Must, Verdict: spec.Fail, Causes: "a cause"}}
		r.Conclude()
		var b bytes.Buffer
		if err := text.Write(&b, r, text.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(b.Bytes(), []byte("The pods are Lastcall's own")); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A version that nobody could ask for is a warning, and no more.
func TestProgramUnknown(t *testing.T) {
	r := &v1alpha1.ConformanceReport{Environment: v1alpha1.Environment{ProgramUnknown: "host.version: proxy -v: exit status 1"}}
	r.Implementation.Version = "1.2"
	r.Conclude()
	var b bytes.Buffer
	if err := text.Write(&b, r, text.Options{}); err != nil {
		t.Fatal(err)
	}
	want := "  WARNING: the program did not say which version it is (host.version: proxy -v: exit status 1); the report is made out for 1.2\n"
	if !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// The propagation points at the behaviour that judges it, where that was judged.
func TestWhoJudgesThePropagation(t *testing.T) {
	const id = "endpoints.prefers-ready"
	for name, c := range map[string]struct {
		all  []v1alpha1.Behaviour
		want string
	}{
		"judged":  {[]v1alpha1.Behaviour{{ID: id, Verdict: spec.Pass}}, "the worst is longer than P: see " + id + "; --p sets P\n"},
		"skipped": {[]v1alpha1.Behaviour{{ID: id, Verdict: spec.Skipped}}, "the worst is longer than P; --p sets P\n"},
		"absent":  {nil, "the worst is longer than P; --p sets P\n"},
	} {
		r := &v1alpha1.ConformanceReport{
			Settings:    v1alpha1.Settings{P: v1alpha1.Duration(3 * time.Second)},
			Propagation: &v1alpha1.Propagation{N: 1, Worst: v1alpha1.Duration(4 * time.Second)},
			Behaviours:  c.all,
		}
		r.Conclude()
		var b bytes.Buffer
		if err := text.Write(&b, r, text.Options{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: no %q in\n%s", name, c.want, b.String())
		}
	}
}

// Steps that failed are told at the top, also where all was well without them; and to tell of
// them changes nothing in the report.
func TestSuspects(t *testing.T) {
	const suspects = "look at this first"
	for _, verdict := range []spec.Verdict{spec.Pass, spec.Skipped, spec.Fail, spec.Inconclusive} {
		r := &v1alpha1.ConformanceReport{
			Stage:      "kind",
			Behaviours: []v1alpha1.Behaviour{{ID: "pod.x", Level: spec.Must, Verdict: verdict, Scenario: "a"}},
		}
		for _, name := range []string{"a", "a", "b"} {
			r.Scenarios = append(r.Scenarios, v1alpha1.Scenario{Name: name, FailedSteps: []v1alpha1.FailedStep{{
				Step: "preStop hook", Error: "PreStopHook failed", Instances: append(make([]string, 0, 4), "gate-"+name), Times: 1,
			}}})
		}
		r.Scenarios[1].FailedSteps[0].Instances[0] = "gate-other"
		r.Conclude()
		var b bytes.Buffer
		if err := text.Write(&b, r, text.Options{}); err != nil {
			t.Fatal(err)
		}
		flat := strings.Join(strings.Fields(b.String()), " ")
		line := "1 of the system's own preStop hooks failed: preStop hook: PreStopHook failed (gate-a, gate-other, gate-b): " + suspects
		if !strings.Contains(flat, line) {
			t.Errorf("%s: no %q in\n%s", verdict, line, b.String())
		}
		if f := r.Scenarios[0].FailedSteps[0]; f.Times != 1 || len(f.Instances) != 1 {
			t.Errorf("the report has changed: %+v", f)
		}
	}
}

func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		in   *spec.Bounds
		want string
	}{
		{nil, ""},
		{
			&spec.Bounds{Terminations: 8, PerTermination: 3. / 8, Requests: 33412, PerRequest: 3. / 33412},
			"0 of 8 terminations lost anything: at most 37.5% of terminations do; 0 of 33,412 requests lost: at most 0.009% within these terminations (with 95% confidence)",
		},
		{
			&spec.Bounds{Terminations: 8, Affected: 2, PerTermination: 0.6509, Requests: 1200, Lost: 7, PerRequest: 0.012},
			"2 of 8 terminations lost something: at most 65.1% of terminations do; 7 of 1,200 requests lost: at most 1.2% within these terminations (with 95% confidence)",
		},
		{
			&spec.Bounds{Terminations: 1, PerTermination: 3, Requests: 1, PerRequest: 3},
			"0 of 1 termination lost anything: too few terminations to say how many do; 0 of 1 request lost",
		},
	} {
		if got := text.Bounds(tc.in); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestCounted(t *testing.T) {
	for c, want := range map[spec.Count]string{
		{Name: "pods seen"}:                                       "1 pod seen",
		{Name: "terminating states", At: "echo-1"}:                "1 terminating state, the fewest at echo-1",
		{Of: "evict", Name: "new connections in [D, D+P]"}:        "evict: 1 new connection in [D, D+P]",
		{Name: "connections that said Connection: close"}:         "1 connection that said Connection: close",
		{Of: "node port", Name: "answers of 200, once", At: "n1"}: "node port: 1 answer of 200, once, the fewest at n1",
		// As reports have it that were written before Of and At.
		{Name: "terminating states, the fewest at echo-1"}: "1 terminating state, the fewest at echo-1",
	} {
		c.N = 1
		if got := text.Counted(c); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestMatrix(t *testing.T) {
	const whole, problems, doubts, notes = "No hole", "What is wrong with it", "What proves nothing", "Written down too"
	cell := v1alpha1.MatrixCell{Behaviour: "pod.x", Verdict: spec.Inconclusive, Expected: spec.Inconclusive}
	for _, tc := range []struct {
		name string
		edit func(*v1alpha1.Matrix, *v1alpha1.MatrixCell)
		want []string
	}{
		{"as it was written down", func(*v1alpha1.Matrix, *v1alpha1.MatrixCell) {}, []string{whole, "pod.x i\n"}},
		{"a note is no hole", func(m *v1alpha1.Matrix, _ *v1alpha1.MatrixCell) { m.Unheld = []string{"f: pod.y"} }, []string{whole, notes, "- f: pod.y"}},
		{"a hole", func(m *v1alpha1.Matrix, _ *v1alpha1.MatrixCell) { m.Problems = []string{"pod.z"} }, []string{problems, "- pod.z"}},
		{"unsure of something else", func(m *v1alpha1.Matrix, c *v1alpha1.MatrixCell) {
			c.Doubt, m.Doubts = true, []string{"pod.z"}
		}, []string{doubts, "- pod.z", "pod.x i!\n"}},
	} {
		m, c := &v1alpha1.Matrix{Kind: "full"}, cell
		tc.edit(m, &c)
		m.Rows = []v1alpha1.MatrixRow{{Fault: "f", Cells: []v1alpha1.MatrixCell{c}}}
		r := &v1alpha1.ConformanceReport{Matrix: m}
		r.Conclude()
		var b bytes.Buffer
		if err := text.Write(&b, r, text.Options{}); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(strings.Fields(strings.ReplaceAll(b.String(), "\n", " | ")), " ")
		got = strings.ReplaceAll(got, " |", "\n")
		for _, word := range []string{whole, problems, doubts, notes} {
			if has, want := strings.Contains(got, word), slices.Contains(tc.want, word); has != want {
				t.Errorf("%s: %q: %t, want %t", tc.name, word, has, want)
			}
		}
		for _, word := range tc.want {
			if !strings.Contains(got, word) {
				t.Errorf("%s: no %q in\n%s", tc.name, word, got)
			}
		}
	}
}

// TestABusyMachine: what to do is told once, before the behaviours that it hits, and what the
// recording was like stands at the recording.
func TestABusyMachine(t *testing.T) {
	const late = "30% of the requests were sent late"
	behaviour := func(id, scenario string) v1alpha1.Behaviour {
		return v1alpha1.Behaviour{ID: id, Verdict: spec.Inconclusive, Scenario: scenario, Recorded: true, Reason: "starved"}
	}
	timing := v1alpha1.ScenarioTiming{
		Wall: v1alpha1.Duration(time.Minute), Busy: late, Used: 1.85, P50: v1alpha1.Duration(142 * time.Millisecond), Lowered: 0.64, Beyond: 1.44,
		Before: []v1alpha1.Attempt{{Why: "nobody saw it", Busy: late, History: "history/kill-1.busy-1"}},
	}
	r := &v1alpha1.ConformanceReport{
		Behaviours: []v1alpha1.Behaviour{behaviour("a.one", "busy"), behaviour("a.two", "busy"), behaviour("b.calm", "calm")},
		Scenarios:  []v1alpha1.Scenario{{Name: "busy", History: "history/busy", Timing: timing}, {Name: "calm", History: "history/calm"}},
	}
	var b bytes.Buffer
	if err := text.Write(&b, r, text.Options{}); err != nil {
		t.Fatal(err)
	}
	said := b.String()
	for _, want := range []string{
		"THE MACHINE WAS BUSY, and 2 behaviours", "--wait-idle 10m", "busy: " + late + ": a.one, a.two",
		"1.9 cores of the machine in use", "142ms", "64% of their rates", "it asks for 1.4 times", "history/kill-1.busy-1",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the text has no %q:\n%s", want, said)
		}
	}
	if n := strings.Count(said, "--wait-idle"); n != 1 {
		t.Errorf("what to do is told %d times", n)
	}
}

// How much slower the machine is than recordings are priced by stands above all that was recorded on it.
func TestASlowMachine(t *testing.T) {
	const want = "a core of this machine did 0.48 of what recordings are priced by"
	for speed, told := range map[float64]bool{0: false, 0.48: true} {
		var b strings.Builder
		r := &v1alpha1.ConformanceReport{Environment: v1alpha1.Environment{Load: &v1alpha1.Load{Speed: speed}}}
		if err := text.Write(&b, r, text.Options{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), want) != told {
			t.Errorf("speed %v:\n%s", speed, b.String())
		}
	}
}

// What a behaviour was not judged by stands beside what it was, whether it passed or failed.
func TestLeftOut(t *testing.T) {
	left := spec.Finding{Check: "the ledger", Verdict: spec.Skipped, Actual: "not judged: it keeps none"}
	for _, v := range []spec.Verdict{spec.Pass, spec.Fail} {
		r := v1alpha1.ConformanceReport{Behaviours: []v1alpha1.Behaviour{{
			ID: "rollout.zero-failed", Level: spec.Must, Verdict: v, Findings: []spec.Finding{{Check: "requests", Verdict: v, Actual: "so many"}, left},
		}}}
		r.Conclude()
		var out strings.Builder
		if err := text.Write(&out, &r, text.Options{}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "the ledger: not judged: it keeps none"); n != 1 {
			t.Errorf("%s: told %d times in\n%s", v, n, out.String())
		}
	}
}
