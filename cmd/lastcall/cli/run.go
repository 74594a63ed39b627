// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/bench/delay"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The stages of this version.
const (
	stageKind    = "kind"
	stageCluster = "cluster"
	stageHost    = "host"
)

// RunRequest is a command line that was found to be sound.
type RunRequest struct {
	Stage      string
	Kubeconfig string
	AgentImage string
	// Kubernetes, Nodes, IPFamily and KubeProxy are empty where they were not
	// given.
	Kubernetes string
	Nodes      int
	Name       string
	IPFamily   string
	KubeProxy  string
	Keep       bool
	// Systems are what is tested on stages host and kind, each with a report of its own where
	// they are several (Reports); none, or nil among them: the reference.
	Systems []*system.System

	// Labels and IDs are as they were given, Selected is what they select.
	Labels, IDs []string
	Selected    []behaviour.Behaviour

	Fault   spec.Fault
	Isolate bool
	// WaitIdle is how long to wait for a calm machine; 0: not at all.
	WaitIdle time.Duration
	Matrix   behaviour.Matrix
	Strict   bool
	P        time.Duration
	// Lag is 0 where it was not given.
	Lag time.Duration
	// TunnelDelay is 0 where it was not given.
	TunnelDelay time.Duration
	Dir         string
	Profile     string

	// Planned is told once for each report what will be recorded, Progress what is recorded,
	// and Say what is being prepared.
	Planned  func(dir string, plan []behaviour.Scenario, takes time.Duration)
	Progress func(behaviour.Progress)
	Say      func(string)
}

// reports are the folders of the reports.
func (r *RunRequest) reports() []string {
	if len(r.Systems) < 2 {
		return []string{r.Dir}
	}
	var out []string
	for _, s := range r.Systems {
		out = append(out, filepath.Join(r.Dir, s.Name()))
	}
	return out
}

func newRun(execute func(context.Context, RunRequest) ([]*v1alpha1.ConformanceReport, error)) *cobra.Command {
	var r RunRequest
	var fault, matrix string
	var files []string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Record the behaviours of a system, and judge the recordings",
		Long: `Record the selected behaviours and judge them. With --stage kind, a cluster is
made for the run and removed after it; a cluster of that --name that is up
already is used if it is what the flags ask for, and left running. With --stage
cluster, the run takes place on the cluster of --kubeconfig, in namespaces of
its own. With --stage host no cluster is needed and no container engine: what is
ended are processes on this machine. Root adds the behaviours of sidecars: their pods
are network namespaces of it.

What is ended is the suite's own reference: its app and its gateway, on a cluster
that the suite did not make the app alone. There, what is judged is the cluster
around it. With --system FILE (see lastcall system --help) it is your own system,
as processes on the host, or with --stage kind as the pods of its manifests. With
several --system their recordings go side by side, and each has a report of its own,
in a folder that has its name. --system reference is the suite's own; what another file
of systems/reference-*.yaml is tested for is left to that one.

The first Ctrl-C stops the run: what was made is removed, what was recorded is
kept and judged. The second ends the process at once. SIGTERM does the same, and so
does a terminal that goes away, but under nohup.

In a checkout, the same run as a test: go test ./suites -run TestConformance -timeout 60m,
or go tool ginkgo ./suites. Each flag --NAME of this command is -lastcall.NAME there, or
LASTCALL_NAME in the environment.`,
		Example: `  lastcall run --labels core
  lastcall run --behaviours pod.accept-after-sigterm --fault exit-on-sigterm
  lastcall run --k8s 1.37 --kube-proxy nftables --ip ipv6
  lastcall run --matrix diagonal
  lastcall run --stage host --system haproxy.yaml
  lastcall run --stage kind --system systems/reference-gateway.yaml
  lastcall run --stage host --system haproxy.yaml --system envoy.yaml
  lastcall run --stage cluster --kubeconfig ~/.kube/config --agent-image example/agent:1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := r.check(cmd.Context(), cmd.Flags().Changed, fault, matrix, files); err != nil {
				return err
			}
			told := newProgress(cmd.ErrOrStderr())
			r.Progress, r.Say = told.progress, told.say
			r.Planned = func(dir string, plan []behaviour.Scenario, takes time.Duration) { told.plan(plan, takes, dir) }
			reports, err := execute(cmd.Context(), r)
			told.close()
			out, colour := cmd.OutOrStdout(), text.Terminal(cmd.OutOrStdout())
			var have []*v1alpha1.ConformanceReport
			for i, report := range reports {
				if report == nil {
					continue
				}
				have = append(have, report)
				if werr := text.Write(out, report, text.Options{Dir: r.reports()[i], Colour: colour}); werr != nil {
					return werr
				}
			}
			if len(have) == 0 {
				return failed(cmd.Context(), err)
			}
			if len(r.Systems) > 1 {
				r.sum(out, reports)
			}
			worst := have[0]
			for _, report := range have {
				if v1alpha1.WorseExit(report.ExitCode, worst.ExitCode) {
					worst = report
				}
			}
			if err != nil {
				// The verdicts stand, but the run as a whole does not.
				return exit{code: cmp.Or(worst.ExitCode, v1alpha1.ExitInconclusive), err: err}
			}
			return ended(worst)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Stage, "stage", stageKind, "where to run: kind (a cluster is made), cluster (--kubeconfig), or host (processes on this machine)")
	f.StringArrayVar(&files, "system", nil, "`FILE` of the system to be tested, or several of these; reference, the default, is the suite's own (--stage host or kind)")
	f.StringVar(&r.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (--stage cluster)")
	f.StringVar(&r.AgentImage, "agent-image", "", "image of the suite's agents, where the cluster has it under another name (--stage cluster)")
	f.StringVar(&r.Kubernetes, "k8s", defaultKubernetes, k8sHelp+" (--stage kind)")
	f.IntVar(&r.Nodes, "nodes", defaultNodes, "number of nodes (--stage kind)")
	f.StringVar(&r.Name, "name", defaultName, "name of the cluster (--stage kind)")
	f.StringVar(&r.IPFamily, "ip", "", ipHelp+"; on a host of those of the suite's mesh, ipv4 without it (--stage kind or host)")
	f.StringVar(&r.KubeProxy, "kube-proxy", kind.DefaultKubeProxy, kubeProxyHelp+" (--stage kind)")
	f.BoolVar(&r.Keep, "keep", false, "leave the cluster running after the run (--stage kind)")
	f.StringSliceVar(&r.Labels, "labels", nil, "behaviours with one of these labels, or of one of these areas: core is the quick look; pod, endpoints and rollout are areas (default all, unless --behaviours is given)")
	f.StringSliceVar(&r.IDs, "behaviours", nil, "behaviours by ID (see lastcall list); with --labels, these too")
	f.StringVar(&fault, "fault", "", "break a part of the suite's own reference system on purpose, to see a behaviour fail: the `NAME` of a fault (see lastcall list)")
	f.StringVar(&matrix, "matrix", "", "test the suite instead of a system: run with faults, and see whether the behaviours notice them; diagonal (each behaviour under its first fault) or full")
	f.BoolVar(&r.Isolate, "isolate", false, "make a recording for each behaviour; by default those with the same disruption share one")
	f.DurationVar(&r.WaitIdle, "wait-idle", 0, "wait this long at most for this machine to be calm, such as 10m (--stage host or kind)")
	f.BoolVar(&r.Strict, "strict", false, "let a SHOULD that fails fail the run")
	f.DurationVar(&r.P, "p", 3*time.Second, "propagation window P: how long the cluster may take to notice that a pod goes (500ms to 1m)")
	f.DurationVar(&r.Lag, "lag", 0, "how long the stage's own balancer takes to follow an instance's readiness (default 500ms; up to 1m; more than --p is what no system has to survive) (--stage host)")
	f.DurationVar(&r.TunnelDelay, "tunnel-delay", 0, "how much later each packet of a tunnel arrives between the pods of the suite's mesh, one way, such as 20ms (up to "+delay.Longest.String()+"): behaviours about races are worth a second run so (--stage host)")
	f.StringVar(&r.Dir, "out", "", "directory for the report and the recordings (default lastcall-report/<date>)")
	f.StringVar(&r.Profile, "profile", behaviour.CI, "size of the run: ci, or full with more load for longer, and clients outside the cluster")
	return cmd
}

// check refuses what is wrong with a command line before anything is started,
// and fills in what follows from the rest. All mistakes are told at once.
func (r *RunRequest) check(ctx context.Context, given func(flag string) bool, fault, matrix string, files []string) error {
	var bad []error
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	needs := func(stage string, flags ...string) {
		for _, f := range flags {
			if given(f) {
				wrong("--%s belongs to --stage %s, and this is --stage %s", f, stage, r.Stage)
			}
		}
	}
	switch r.Stage {
	case stageKind:
		needs(stageCluster, "kubeconfig", "agent-image")
		needs(stageHost, "lag", "tunnel-delay")
		config := kind.Config{Name: r.Name, IPFamily: r.IPFamily, KubeProxy: r.KubeProxy}
		if err := checkCluster(r.Nodes, config); err != nil {
			bad = append(bad, err)
			break
		}
		config.Kubernetes = r.Kubernetes
		if err := checkCluster(r.Nodes, config); err != nil {
			// A cluster that stands may be of a version that no image is known for:
			// then that is for the stage to judge.
			if _, stands := kind.Open(ctx, r.Name); errors.Is(stands, fs.ErrNotExist) {
				bad = append(bad, err)
			}
		}
	case stageCluster:
		needs(stageKind, "k8s", "nodes", "name", "kube-proxy", "keep")
		needs(stageHost+" or "+stageKind, "system", "wait-idle", "ip")
		needs(stageHost, "lag", "tunnel-delay")
		if r.Kubeconfig == "" {
			wrong("--stage cluster needs --kubeconfig FILE: the suite never takes the cluster that happens to be your current one")
		} else if err := checkKubeconfig(r.Kubeconfig); err != nil {
			bad = append(bad, err)
		}
	case stageHost:
		needs(stageKind, "k8s", "nodes", "name", "kube-proxy", "keep")
		if _, err := bench.ParseStack(r.IPFamily); err != nil {
			bad = append(bad, err)
		}
		needs(stageCluster, "kubeconfig", "agent-image")
	default:
		wrong("--stage %q: it is %s, %s or %s", r.Stage, stageKind, stageCluster, stageHost)
	}
	for _, file := range files {
		s, err := tested(file)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		named := func(o *system.System) bool { return o.Name() == s.Name() }
		if slices.ContainsFunc(r.Systems, named) {
			wrong("--system %s: another one is called %s too, and each has a folder of its name: change metadata.name", file, s.Name())
		}
		if fault != "" && s != nil && !s.Reference() {
			wrong("--fault breaks the suite's own reference: with --system it goes with systems/reference-*.yaml only")
		}
		r.Systems = append(r.Systems, s)
	}
	if r.Profile != behaviour.CI && r.Profile != behaviour.FullSize {
		wrong("--profile %q: it is %s or %s", r.Profile, behaviour.CI, behaviour.FullSize)
	}
	var err error
	if r.Fault, err = fixtures.Find(behaviour.Faults(), fault); err != nil {
		wrong("--fault: %w", err)
	}
	switch r.Matrix = behaviour.Matrix(matrix); r.Matrix {
	case behaviour.NoMatrix:
	case behaviour.Diagonal, behaviour.Whole:
		if fault != "" || r.Isolate {
			wrong("--matrix takes all faults in turn: it can't be joined with --fault or --isolate")
		}
		if len(files) > 1 || slices.ContainsFunc(r.Systems, func(s *system.System) bool { return s != nil && !s.Reference() }) {
			wrong("--matrix breaks the suite's own reference: with --system it goes with one of systems/reference-*.yaml")
		}
	default:
		wrong("--matrix %q: it is %s or %s", matrix, behaviour.Diagonal, behaviour.Whole)
	}
	// An empty list would select everything: whoever wrote `--labels "$X"` with an
	// empty X did not mean that.
	for _, list := range []struct {
		flag  string
		words []string
	}{{"labels", r.Labels}, {"behaviours", r.IDs}} {
		if given(list.flag) && (len(list.words) == 0 || slices.Contains(list.words, "")) {
			wrong("--%s has an empty value, which selects nothing: name something, or leave the flag out to run all", list.flag)
		}
	}
	if r.P < shortestP || r.P > longestP {
		wrong("--p: the propagation window is %s: give something from 500ms to 1m", r.P)
	}
	if given("lag") && (r.Lag <= 0 || r.Lag > longestP) {
		wrong("--lag: the balancer can't be %s late: give something above 0, up to 1m", r.Lag)
	}
	if given("tunnel-delay") && (r.TunnelDelay <= 0 || r.TunnelDelay > delay.Longest) {
		wrong("--tunnel-delay: tunnels can't be %s late: give something above 0, up to %s", r.TunnelDelay, delay.Longest)
	}
	for _, id := range r.IDs {
		if id == "" {
			continue
		}
		if _, ok := behaviour.Find(id); !ok {
			bad = append(bad, unknown(id))
		}
	}
	r.forgetDefaults(given)
	if len(bad) == 0 {
		if r.Selected, err = behaviour.Select(behaviour.Sized(behaviour.Catalogue(), r.Profile), r.Labels, r.IDs); err != nil {
			bad = append(bad, err)
		}
	}
	if r.Dir == "" {
		r.Dir = filepath.Join("lastcall-report", time.Now().UTC().Format("20060102-150405"))
	}
	if err := checkOut(r.Dir); err != nil {
		bad = append(bad, err)
	}
	return errors.Join(bad...)
}

// forgetDefaults leaves empty what was not asked for of the cluster: one that
// stands may have anything there, and a new one has kind's defaults.
func (r *RunRequest) forgetDefaults(given func(flag string) bool) {
	if !given("k8s") {
		r.Kubernetes = ""
	}
	if !given("nodes") {
		r.Nodes = 0
	}
	if !given("kube-proxy") {
		r.KubeProxy = ""
	}
}

// tested is the system that --system names; nil: the reference.
func tested(file string) (*system.System, error) {
	if file == system.Own {
		return nil, nil
	}
	s, err := system.Load(file)
	if err != nil {
		return nil, err
	}
	return s, behaviour.Deviations(s)
}

// The propagation windows that suites takes.
const (
	shortestP = 500 * time.Millisecond
	longestP  = time.Minute
)

// checkOut refuses a directory that something could be lost in. What a run
// leaves that failed before it recorded anything, an empty log of the specs, is
// nothing.
func checkOut(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		if e.Name() != "ginkgo.log" || !info.Mode().IsRegular() || info.Size() > 0 {
			return fmt.Errorf("--out %s is not empty: nothing that was recorded is written over", dir)
		}
	}
	return nil
}

// failed turns an error without a report into an exit code: a run that a
// person stopped showed nothing, everything else is input or environment.
func failed(ctx context.Context, err error) error {
	if err == nil {
		err = errors.New("the run gave neither a report nor an error")
	}
	if cause := context.Cause(ctx); cause != nil {
		return exit{code: v1alpha1.ExitInconclusive, err: cause}
	}
	return exit{code: v1alpha1.ExitUsage, err: err}
}

// sum says in a line for each system how it fared.
func (r *RunRequest) sum(out io.Writer, reports []*v1alpha1.ConformanceReport) {
	fmt.Fprintf(out, "\n%s\n", text.Count(len(r.Systems), "system"))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, s := range r.Systems {
		verdict, code, where := "no report", v1alpha1.ExitUsage, "-"
		if i < len(reports) && reports[i] != nil {
			verdict, code, where = reports[i].Verdict.String(), reports[i].ExitCode, filepath.Join(r.reports()[i], v1alpha1.File)
		}
		fmt.Fprintf(w, "  %s\t%s\texit code %d\t%s\n", s.Name(), verdict, code, where)
	}
	// Nothing that is written to a person's terminal can be mended.
	_ = w.Flush()
}

// ended turns a report into an exit code. The report was told already.
func ended(r *v1alpha1.ConformanceReport) error {
	if r.ExitCode == v1alpha1.ExitPass {
		return nil
	}
	return exit{code: r.ExitCode}
}

// nearest are the words that a person may have meant by another, which so many letters tell
// apart from it: cobra knows how to find them among the names of commands.
func nearest(word string, letters int, among []string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: letters}
	for _, w := range among {
		all.AddCommand(&cobra.Command{Use: w, Run: func(*cobra.Command, []string) {}})
	}
	return all.SuggestionsFor(word)
}

// unknown is the error for an ID that no behaviour has.
func unknown(id string) error {
	var ids []string
	for _, b := range behaviour.Catalogue() {
		ids = append(ids, b.ID)
	}
	near := nearest(id, min(5, 1+len(id)/4), ids) // a word that is near to nothing is near to every short one
	for _, b := range behaviour.Catalogue() {
		if strings.Contains(b.ID, id) && !slices.Contains(near, b.ID) {
			near = append(near, b.ID)
		}
	}
	if area, _, dotted := strings.Cut(id, "."); dotted && len(near) == 0 {
		for _, b := range behaviour.Catalogue() {
			if strings.HasPrefix(b.ID, area+".") {
				near = append(near, b.ID)
			}
		}
	}
	if len(near) == 0 {
		return fmt.Errorf("no behaviour is called %q: `lastcall list` shows them", id)
	}
	return fmt.Errorf("no behaviour is called %q: is it %s?", id, strings.Join(near, " or "))
}
