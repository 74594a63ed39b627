// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lastcall-dev/lastcall/cmd/lastcall/cli"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"

	_ "github.com/lastcall-dev/lastcall/suites/all" // the catalogue
)

// ran is what one command line did.
type ran struct {
	code           int
	stdout, stderr string
	request        *cli.RunRequest
}

// lastcall carries a command line out on a world in which a run ends with the
// verdict.
func lastcall(t *testing.T, verdict spec.Verdict, args ...string) ran {
	t.Helper()
	t.Chdir(t.TempDir())
	var out ran
	do := cli.Actions{
		Execute: func(_ context.Context, r cli.RunRequest) ([]*v1alpha1.ConformanceReport, error) {
			out.request = &r
			r.Say("bringing the cluster up")
			r.Planned(r.Dir, behaviour.Plan(r.Selected, behaviour.How{Fault: r.Fault, Isolate: r.Isolate, Matrix: r.Matrix}), 0)
			r.Progress(behaviour.Progress{Scenario: "delete-1", Step: "recording", N: 1, Of: 3, Left: 3 * time.Minute, Samples: 10, Failed: 1})
			out := []*v1alpha1.ConformanceReport{report(verdict)}
			for range max(1, len(r.Systems)) - 1 {
				out = append(out, report(spec.Pass))
			}
			return out, nil
		},
		Rejudge: func(string) (*v1alpha1.ConformanceReport, error) { return report(verdict), nil },
		Cluster: cli.ClusterActions{
			Up: func(_ context.Context, r cli.UpRequest) (string, error) {
				r.Say("nodes")
				return "/tmp/kubeconfig", nil
			},
			Down:    func(context.Context, string) error { return errors.New("there is no cluster x") },
			Cleanup: func(context.Context) ([]string, error) { return nil, nil },
		},
	}
	var stdout, stderr bytes.Buffer
	out.code = cli.Run(t.Context(), args, &stdout, &stderr, do)
	out.stdout, out.stderr = stdout.String(), stderr.String()
	return out
}

func report(v spec.Verdict) *v1alpha1.ConformanceReport {
	r := &v1alpha1.ConformanceReport{Settings: v1alpha1.Settings{P: v1alpha1.Duration(3 * time.Second)}, Behaviours: []v1alpha1.Behaviour{{ID: "pod.x", Level: spec.Must, Verdict: v}}}
	r.Conclude()
	return r
}

func TestExitCodes(t *testing.T) {
	for v, want := range map[spec.Verdict]int{spec.Pass: 0, spec.Fail: 1, spec.Inconclusive: 3, spec.Error: 3, spec.Skipped: 3} {
		for _, args := range [][]string{{"run"}, {"report", "rejudge", "."}} {
			if got := lastcall(t, v, args...); got.code != want {
				t.Errorf("%v, %v: exit %d, want %d\n%s", args, v, got.code, want, got.stderr)
			}
		}
	}
}

func TestRunRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string]string{
		`--stage "moon": it is kind, cluster or host`:                  "--stage moon",
		"--kubeconfig belongs to --stage cluster":                      "--kubeconfig f",
		"--agent-image belongs to --stage cluster":                     "--agent-image f",
		"--stage cluster needs --kubeconfig":                           "--stage cluster",
		"--keep belongs to --stage kind":                               "--stage cluster --kubeconfig f --keep",
		"no such file":                                                 "--stage cluster --kubeconfig nowhere",
		"a cluster needs a name":                                       "--name=",
		"a cluster has one node at least":                              "--nodes 0",
		`there is no fault "none-such": use one of`:                    "--fault none-such",
		"is it pod.accept-after-sigterm?":                              "--behaviours pod.acept-after-sigterm",
		"is it http1.closes-after-saying or http1.connection-close or": "--behaviours http1.nope",
		`no behaviour has the label "none"`:                            "--labels none",
		`--matrix "none"`:                                              "--matrix none",
		"--matrix takes all faults in turn":                            "--matrix full --fault exit-on-sigterm",
		`--profile "huge"`:                                             "--profile huge",
		"is not empty: nothing that was recorded is":                   "--out " + full,
		"unknown flag: --retries":                                      "--retries 3",
		"unknown flag: --sytem: is it --system?":                       "--sytem f",
		"unknown command":                                              "everything",
		"--labels has an empty value":                                  "--labels=",
		"--behaviours has an empty value":                              "--behaviours=",
		"the propagation window is 0s: give something":                 "--p 0s",
		"the propagation window is -1s":                                "--p=-1s",
		`version "1.20" of Kubernetes is not known`:                    "--k8s 1.20 --name none-such-stands",
		`invalid argument "soon" for "--p"`:                            "--p soon",
		"--nodes belongs to --stage kind, and this is":                 "--stage cluster --nodes 3 --fault none-such",
		"--lag belongs to --stage host, and this is":                   "--lag 2s",
		"--lag: the balancer can't be 0s late":                         "--stage host --lag 0s",
		"--tunnel-delay belongs to --stage host, and this is":          "--tunnel-delay 20ms",
		`IP family "six": ipv4, ipv6 and dual are possible`:            "--stage host --ip six",
		"--tunnel-delay: tunnels can't be 2s late":                     "--stage host --tunnel-delay 2s",
	} {
		got := lastcall(t, spec.Pass, append([]string{"run"}, strings.Fields(args)...)...)
		if got.code != 2 || got.request != nil || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, started %v, want %q in\n%s", args, got.code, got.request != nil, want, got.stderr)
		}
	}
}

// A command that is none is told which it may have been.
func TestSubcommand(t *testing.T) {
	for args, want := range map[string]string{
		"rnu":           `unknown command "rnu" for "lastcall": is it run?`,
		"everything":    "unknown command \"everything\" for \"lastcall\": see `lastcall --help`",
		"system chek":   `unknown command "chek" for "lastcall system": is it check?`,
		"report rejuge": `unknown command "rejuge" for "lastcall report": is it rejudge?`,
	} {
		if got := lastcall(t, spec.Pass, strings.Fields(args)...); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, want %q in\n%s", args, got.code, want, got.stderr)
		}
	}
}

func TestRunSelects(t *testing.T) {
	got := lastcall(t, spec.Pass, "run")
	if got.request == nil || len(got.request.Selected) != len(behaviour.Catalogue()) {
		t.Fatalf("by default all are run: %+v", got.request)
	}
	if got.request.Kubernetes != "" || got.request.Nodes != 0 || got.request.KubeProxy != "" {
		t.Errorf("a cluster that stands would be refused for what nobody asked for: %+v", got.request)
	}
	if got.request.Dir == "" || !strings.HasPrefix(got.request.Dir, "lastcall-report") {
		t.Errorf("the report goes to %q", got.request.Dir)
	}
	for _, want := range []string{"recordings, about", "bringing the cluster up", "[1/3, about 3m00s left] delete-1: recording (10 requests, 1 failed)"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in\n%s", want, got.stderr)
		}
	}
	if strings.Contains(got.stderr, "\x1b") {
		t.Error("a pipe gets plain lines")
	}
	got = lastcall(t, spec.Pass, "run", "--behaviours", "pod.accept-after-sigterm", "--fault", "exit-on-sigterm")
	if len(got.request.Selected) != 1 || len(got.request.Labels) != 0 || got.request.Fault != "exit-on-sigterm" {
		t.Errorf("%+v", got.request)
	}
}

// Several systems have a report each, in a folder of its name, and the worst makes the exit code.
func TestRunOfSeveralSystems(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string {
		t.Helper()
		files, err := system.Starter(system.Gateway, name)
		path := filepath.Join(dir, name+".yaml")
		if err == nil {
			err = os.WriteFile(path, []byte(files[0].Text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, other := file("one"), file("other")
	for v, want := range map[spec.Verdict]int{spec.Pass: 0, spec.Fail: 1, spec.Inconclusive: 3} {
		got := lastcall(t, v, "run", "--stage", "host", "--out", "out", "--system", one, "--system", other)
		if got.code != want || len(got.request.Systems) != 2 || got.request.Systems[1].Metadata.Name != "other" {
			t.Errorf("%v: exit %d, want %d\n%s", v, got.code, want, got.stderr)
		}
		for _, line := range []string{"2 systems", "out/one/report.yaml", "out/other/report.yaml"} {
			if !strings.Contains(got.stdout, line) {
				t.Errorf("%v: no %q in\n%s", v, line, got.stdout)
			}
		}
	}
	for args, want := range map[string]string{
		one + " " + one:               "another one is called one too",
		one + " --matrix diagonal":    "breaks the suite's own reference",
		one + " --fault no-goaway":    "breaks the suite's own reference",
		one + " --system nowhere.txt": "nowhere.txt",
	} {
		line := "run --stage host --system " + strings.Replace(args, " "+one, " --system "+one, 1)
		if got := lastcall(t, spec.Pass, strings.Fields(line)...); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, no %q in\n%s", line, got.code, want, got.stderr)
		}
	}
}

func TestRunStopped(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	code := cli.Run(ctx, []string{"run"}, &stdout, &stderr, cli.Actions{
		Execute: func(ctx context.Context, _ cli.RunRequest) ([]*v1alpha1.ConformanceReport, error) {
			cancel(errors.New("stopped by interrupt"))
			return nil, ctx.Err()
		},
	})
	if code != 3 || !strings.Contains(stderr.String(), "stopped by interrupt") {
		t.Errorf("exit %d\n%s", code, stderr.String())
	}
}

func TestList(t *testing.T) {
	got := lastcall(t, spec.Pass, "list")
	if got.code != 0 || !strings.Contains(got.stdout, "pod.accept-after-sigterm") {
		t.Errorf("exit %d\n%s", got.code, got.stdout)
	}
	for line := range strings.Lines(got.stdout) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"LEVEL", "exit-on-sigterm  ", "echo: leaves at SIGTERM", "echo is its app", "and the areas: "} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	got = lastcall(t, spec.Pass, "list", "--labels", "sidecar")
	if !strings.Contains(got.stdout, "sidecar.admin-closed ") || strings.Contains(got.stdout, "pod.accept-after-sigterm ") || strings.Contains(got.stdout, "exit-on-sigterm ") {
		t.Errorf("of sidecars alone:\n%s", got.stdout)
	}
	if got = lastcall(t, spec.Error, "list", "--labels", "nothing"); !strings.Contains(got.stderr, `no behaviour has the label "nothing"`) {
		t.Errorf("%d: %s", got.code, got.stderr)
	}
	got = lastcall(t, spec.Pass, "list", "-o", "json")
	var all []struct {
		ID, Level, Scenario string
		Basis, Stages       []string
		Needs, Faults       []string
		References          []spec.Ref
	}
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 7 {
		t.Errorf("%d behaviours", len(all))
	}
	for _, b := range all {
		if b.ID == "" || b.Level == "" || b.Scenario == "" || len(b.Basis) == 0 || len(b.Stages) == 0 || len(b.Needs) == 0 ||
			len(b.Faults) == 0 || len(b.References) == 0 || b.References[0].Quote == "" {
			t.Errorf("not whole: %+v", b)
		}
	}
	if got := lastcall(t, spec.Pass, "list", "-o", "xml"); got.code != 2 {
		t.Errorf("exit %d", got.code)
	}
}

func TestExplain(t *testing.T) {
	for _, b := range behaviour.Catalogue() {
		got := lastcall(t, spec.Pass, "explain", b.ID)
		for _, want := range []string{b.Title, b.Why, b.Causes, b.Fix, text.Basis(b.Refs[0]), "The words", "A stream's name is", " Stages: "} {
			// It is broken into lines.
			if !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s: no %q in\n%s", b.ID, want, got.stdout)
			}
		}
		for _, bad := range []string{"at least 0", "  project", "sigterm-again"} {
			if strings.Contains(got.stdout, bad) {
				t.Errorf("%s: %q in\n%s", b.ID, bad, got.stdout)
			}
		}
	}
	for in, want := range map[string]string{
		"accept-after":            "is it pod.accept-after-sigterm?",
		"endpoints.prefer-ready":  "endpoints.prefers-ready?",
		"zzzzzzzzzzzzzzzzzzzzzzz": "`lastcall list` shows them",
	} {
		if got := lastcall(t, spec.Pass, "explain", in); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, %s", in, got.code, got.stderr)
		}
	}
}

func TestClusters(t *testing.T) {
	if got := lastcall(t, spec.Pass, "up"); got.code != 0 || !strings.Contains(got.stdout, "export KUBECONFIG=/tmp/kubeconfig") {
		t.Errorf("%+v", got)
	}
	if got := lastcall(t, spec.Pass, "down", "--name", "x"); got.code != 2 || !strings.Contains(got.stderr, "no cluster x") {
		t.Errorf("%+v", got)
	}
	if got := lastcall(t, spec.Pass, "cleanup"); got.code != 0 || !strings.Contains(got.stdout, "nothing of ours was left") {
		t.Errorf("%+v", got)
	}
	if got := lastcall(t, spec.Pass, "version"); got.code != 0 || !strings.HasPrefix(got.stdout, "lastcall v") {
		t.Errorf("%+v", got)
	}
}

func TestRejudgeTells(t *testing.T) {
	if got := lastcall(t, spec.Pass, "report", "rejudge", "."); !strings.Contains(got.stderr, "wrote report.yaml") || !strings.Contains(got.stderr, "junit.xml is as the run") {
		t.Errorf("%+v", got)
	}
	if got := lastcall(t, spec.Pass, "report", "rejudge", "nowhere"); got.code != 2 || !strings.Contains(got.stderr, "nowhere: no such directory") {
		t.Errorf("%+v", got)
	}
	if got := lastcall(t, spec.Pass, "report", "expect", written(t, spec.Fail)); got.code != 2 || !strings.Contains(got.stderr, "is a run without --fault") {
		t.Errorf("%+v", got)
	}
}

// What a run that failed early left is no recording.
func TestRunTakesWhatHoldsNothing(t *testing.T) {
	out := t.TempDir()
	log := filepath.Join(out, "ginkgo.log")
	for content, want := range map[string]int{"": 0, "Running Suite": 2} {
		if err := os.WriteFile(log, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastcall(t, spec.Pass, "run", "--out", out); got.code != want {
			t.Errorf("a log of %q: exit %d, want %d\n%s", content, got.code, want, got.stderr)
		}
	}
}

func TestKubeconfigs(t *testing.T) {
	const cluster = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'https://192.0.2.1'}}]\n"
	const whole = cluster + "contexts: [{name: c, context: {cluster: a}}]\n"
	for content, want := range map[string]string{
		"":                               "it names no cluster: it holds neither",
		"clusters: [":                    "it can't be read",
		whole:                            "it has no current-context; its contexts are c",
		whole + "current-context: d\n":   `its current-context is "d", and it has no such context`,
		cluster + "current-context: c\n": "it has no such context",
		whole + "current-context: c\n":   "",
	} {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := lastcall(t, spec.Pass, "run", "--stage", "cluster", "--kubeconfig", file)
		if want == "" && got.code == 0 {
			continue
		}
		if got.code != 2 || got.request != nil || !strings.Contains(got.stderr, "kubeconfig "+file+": ") || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "recordings, about") {
			t.Errorf("%q: exit %d, want %q in\n%s", content, got.code, want, got.stderr)
		}
	}
}
