// SPDX-License-Identifier: Apache-2.0

// Package suites is the entry for everybody: vendors' tests call Run, the CLI
// calls Execute, and both give the same verdicts. It is the only package that
// knows Ginkgo.
package suites

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/formatter"
	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/bench/delay"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/host"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/systems"

	// Every behaviour registers itself.
	_ "github.com/lastcall-dev/lastcall/suites/all"
)

// DefaultP is the propagation window where none is given.
const DefaultP = 3 * time.Second

// JUnitFile is the JUnit form of the report, in its directory.
const JUnitFile = "junit.xml"

// specLog is what Ginkgo itself said, in the report's directory.
const specLog = "ginkgo.log"

// Config is a run, as people ask for it.
type Config struct {
	// Stage is where: kind, cluster or host.
	Stage string
	// System is what is tested on stages host and kind; nil: the reference, its app and
	// its gateway.
	System *system.System
	// Agent is the command of the reference components on stage host, and Mesh that of
	// the reference mesh's; empty: they are built.
	Agent, Mesh []string
	// Plugin is the program of that mesh's CNI plugin on stage host (host.Config); empty: it is built.
	Plugin string
	// Kubeconfig is the cluster of stage cluster.
	Kubeconfig string
	// AgentImage is the agent's image on a cluster that the suite did not
	// make; empty: the one that this checkout builds.
	AgentImage string
	// Kubernetes, Nodes and Name say which cluster stage kind makes, or
	// finds standing under that name.
	Kubernetes string
	Nodes      int
	Name       string
	// KubeProxy and IPFamily are kube-proxy's mode and the cluster's family, as
	// kind.Config has them; empty: the defaults, or whatever stands. On stage host
	// IPFamily is that of the mesh's pods; empty: IPv4.
	KubeProxy, IPFamily string
	// Keep leaves the cluster that was made standing.
	Keep bool

	// Labels and Behaviours select; neither selects all.
	Labels     []string
	Behaviours []string
	Fault      string
	Isolate    bool
	// WaitIdle is how long the first recording waits at most for this machine to be calm.
	WaitIdle time.Duration
	Strict   bool
	// Matrix proves the suite itself instead of judging a system: each
	// behaviour is put to components that are broken on purpose.
	Matrix behaviour.Matrix
	// P is the propagation window; 0 means DefaultP.
	P time.Duration
	// Lag is how long the service network of stage host takes to follow an endpoint; 0
	// means host.DefaultLag. One beyond P breaks what every system may rely on.
	Lag time.Duration
	// TunnelDelay is how much later each packet of a tunnel arrives between the pods of stage host's
	// mesh, one way; 0: nothing is late.
	TunnelDelay time.Duration
	Profile     string

	// Out is the report's directory. It must not hold another run.
	Out string
	// Implementation is what is tested; the zero value is the reference.
	Implementation v1alpha1.Implementation
	// Planned, Progress and Say tell people what goes on. Planned is called once for each
	// report, when the stage has said what it can carry; dir is the report's.
	Planned  func(dir string, plan []behaviour.Scenario, takes time.Duration)
	Progress func(behaviour.Progress)
	Say      func(format string, args ...any)

	// beside are all systems of the run, where it tests several; nil among them is the reference.
	beside []*system.System
}

// tested are the systems that the run tests; none: the reference alone.
func (c Config) tested() []*system.System {
	all := c.beside
	if all == nil {
		all = []*system.System{c.System}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *system.System) bool { return s == nil })
}

// elsewhere says which behaviours are judged of another system that the run tests: of the reference those of a role whose
// reference that is; and of the reference node proxy what its app says on its own connections, where the reference sidecar is
// there: it is the same app, and the same data path carries it.
func (c Config) elsewhere(b behaviour.Behaviour) behaviour.Skip {
	role := b.Topology.Role
	area, _, _ := strings.Cut(b.ID, ".")
	switch {
	case c.System != nil && c.System.Reference() && c.System.Stands().Role == system.NodeProxy && slices.Contains(ofTheAppsWire, area):
		role = system.Sidecar
	case c.System != nil || role == "":
		return behaviour.Skip{}
	}
	for _, sys := range c.tested() {
		if sys != c.System && sys.Reference() && sys.Stands().Role == role {
			return behaviour.Because(spec.OtherRole, fmt.Sprintf("it is judged of the system %s, which this run tests too: see its report", sys.Name()))
		}
	}
	return behaviour.Skip{}
}

// ofTheAppsWire are the areas of what an app says on connections of HTTP and TLS.
var ofTheAppsWire = []string{"http1", "h2", "tls"}

// UsageError is bad input or an environment that can't run the suite: nothing
// was started.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func (c Config) withDefaults() Config {
	if c.P == 0 {
		c.P = DefaultP
	}
	if c.Lag == 0 && c.Stage == StageHost {
		c.Lag = host.DefaultLag
	}
	if c.Profile == "" {
		c.Profile = behaviour.CI
	}
	if c.Say == nil {
		c.Say = func(string, ...any) {}
	}
	if c.System != nil {
		c.System = complete(*c.System)
		if c.System.Serves() {
			reference, err := systems.Reference(system.NodeProxy)
			if err != nil {
				panic(err) // it is a part of this program
			}
			c.System = c.System.Serving(reference)
		}
		i := c.System.Implementation
		c.Implementation = v1alpha1.Implementation{
			Organization: i.Organization, Project: i.Project, URL: i.URL, Version: i.Version, Contact: i.Contact,
		}
	}
	if c.Implementation.Project == "" {
		c.Implementation = v1alpha1.Implementation{
			Organization: "lastcall-dev", Project: "reference", Version: v1alpha1.Version,
			URL: "https://github.com/lastcall-dev/lastcall",
		}
	}
	return c
}

// complete is a system with all that was left open filled in, as in one that was read from
// a file. The caller's own stays as it is.
func complete(s system.System) *system.System {
	own := func(h *system.HTTPStep) *system.HTTPStep {
		if h == nil {
			return nil
		}
		step := *h
		return &step
	}
	s.Admin = own(s.Admin)
	s.Terminate = slices.Clone(s.Terminate)
	for i := range s.Terminate {
		s.Terminate[i].HTTP = own(s.Terminate[i].HTTP)
	}
	if s.Host != nil {
		host := *s.Host
		s.Host = &host
	}
	s.Default()
	return &s
}

// validate lists what is wrong with a request before anything is started.
func (c Config) validate() ([]behaviour.Behaviour, spec.Fault, error) {
	var bugs []error
	if c.Out == "" {
		bugs = append(bugs, errors.New("no directory for the report was given"))
	} else if _, err := os.Stat(filepath.Join(c.Out, "run.json")); err == nil {
		bugs = append(bugs, fmt.Errorf("%s already holds a run: nothing that was recorded is written over", c.Out))
	}
	if c.P < 500*time.Millisecond || c.P > time.Minute {
		bugs = append(bugs, fmt.Errorf("the propagation window is %s: give something from 500ms to 1m", c.P))
	}
	if c.Lag < 0 || c.Lag > time.Minute {
		bugs = append(bugs, fmt.Errorf("the balancer can't be %s late: give something above 0, up to 1m", c.Lag))
	}
	if c.TunnelDelay < 0 || c.TunnelDelay > delay.Longest {
		bugs = append(bugs, fmt.Errorf("tunnels can't be %s late: give something above 0, up to %s", c.TunnelDelay, delay.Longest))
	}
	if c.TunnelDelay > 0 && c.Stage != StageHost {
		bugs = append(bugs, fmt.Errorf("a delay of tunnels belongs to stage %s, where the wire between pods is the suite's own, and this is stage %s", StageHost, c.Stage))
	}
	if !slices.Contains([]string{behaviour.CI, behaviour.FullSize}, c.Profile) {
		bugs = append(bugs, fmt.Errorf("there is no profile %q: it is %s or %s", c.Profile, behaviour.CI, behaviour.FullSize))
	}
	if !slices.Contains([]behaviour.Matrix{behaviour.NoMatrix, behaviour.Diagonal, behaviour.Whole}, c.Matrix) {
		bugs = append(bugs, fmt.Errorf("there is no matrix %q: it is %s or %s", c.Matrix, behaviour.Diagonal, behaviour.Whole))
	}
	if !slices.Contains([]string{StageKind, StageCluster, StageHost}, c.Stage) {
		bugs = append(bugs, fmt.Errorf("there is no stage %q: use %s, %s or %s", c.Stage, StageKind, StageCluster, StageHost))
	}
	if err := behaviour.Validate(behaviour.Catalogue()); err != nil {
		bugs = append(bugs, err)
	}
	selected, err := behaviour.Select(behaviour.Sized(behaviour.Catalogue(), c.Profile), c.Labels, c.Behaviours)
	if err != nil {
		bugs = append(bugs, err)
	}
	// At one that no file described nobody has looked yet.
	if c.System != nil {
		err := c.System.Validate()
		if err == nil && c.Stage == StageKind {
			err = c.System.Installable()
		}
		if err == nil {
			err = behaviour.Deviations(c.System)
		}
		if err != nil {
			bugs = append(bugs, fmt.Errorf("the system under test can't be used as it is:\n%w", err))
		}
	}
	if _, err := c.carried(selected); err != nil {
		bugs = append(bugs, err)
	}
	fault, err := fixtures.Find(behaviour.Faults(), c.Fault)
	if err != nil {
		bugs = append(bugs, err)
	}
	if fault != "" {
		if why := c.unbroken(fault, selected); why != "" {
			bugs = append(bugs, fmt.Errorf("fault %s on stage %s: %s", fault, c.Stage, why))
		}
	}
	if err := errors.Join(bugs...); err != nil {
		return nil, "", &UsageError{err}
	}
	return selected, fault, nil
}

// Opener brings a stage up. It is called after the request was found good.
type Opener func(ctx context.Context, cfg Config) (behaviour.Stage, error)

// Execute carries out a run and returns its report, which lies in cfg.Out too
// (with histories and JUnit), whatever happened after the stage stood. An
// error means that there is no report.
func Execute(ctx context.Context, cfg Config) (*v1alpha1.ConformanceReport, error) {
	return execute(ctx, &quietT{}, cfg, OpenStage, true)
}

// Check says what is wrong with a run, before anything is started: what Execute refuses, or ExecuteEach where several
// systems are tested.
func Check(cfg Config, tested ...*system.System) error {
	_, err := subjects(cfg, tested)
	return err
}

// Run is the entry of a vendor's test: one spec for each behaviour, judged as
// Execute does. Verdicts other than Pass and Skipped, and failures that are no known
// deviations, fail t. What Ginkgo's own flags
// filter out is not recorded.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	RunContext(t.Context(), t, cfg)
}

// RunContext is Run for a test that can be stopped: when ctx ends, what was made is
// removed, and what was recorded is kept and judged. So it is shortly before the end of
// `go test -timeout`, at which nothing can be removed any more.
func RunContext(ctx context.Context, t *testing.T, cfg Config) {
	t.Helper()
	if end, ok := t.Deadline(); ok {
		over := fmt.Errorf("go test ends this at %s: give it more -timeout (60m is enough)", end.Format(time.TimeOnly))
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end.Add(-closing(cfg.Stage)), over)
		defer cancel()
	}
	report, err := execute(ctx, t, cfg, OpenStage, false)
	if err != nil {
		if why := context.Cause(ctx); why != nil {
			err = fmt.Errorf("%w (%w)", err, why)
		}
		t.Fatal(err)
	}
	if report == nil {
		return // a dry run
	}
	said := fmt.Sprintf("the run is %s: see %s", report.Verdict, filepath.Join(cfg.Out, v1alpha1.File))
	if why := context.Cause(ctx); why != nil {
		said += fmt.Sprintf(" (%v)", why)
	}
	if report.ExitCode != 0 {
		t.Error(said)
	} else if cfg.Say != nil {
		cfg.Say("%s", said)
	}
}

// closing is what the end of a run that is stopped may take: the recordings in hand, the
// proof that nothing left, and the removal of what was made.
func closing(stage string) time.Duration {
	if stage == StageHost {
		return 30 * time.Second
	}
	return downBudget + 2*time.Minute
}

// quietT takes Ginkgo's word that a suite failed: the report says it better.
type quietT struct{}

func (*quietT) Fail() {}

// ExecuteEach carries out a run that tests several systems, side by side on one stage, each with a
// report of its own in a folder of cfg.Out that has its name (system.Own: that of the reference, which
// is nil among them). The reports are in the order of the systems; nil: there is none of that one, and
// the error says why.
func ExecuteEach(ctx context.Context, cfg Config, tested []*system.System) ([]*v1alpha1.ConformanceReport, error) {
	return executeEach(ctx, &quietT{}, cfg, tested, OpenStage, true)
}

func execute(ctx context.Context, t ginkgo.GinkgoTestingT, cfg Config, open Opener, quiet bool) (*v1alpha1.ConformanceReport, error) {
	reports, err := executeEach(ctx, t, cfg, nil, open, quiet)
	if len(reports) == 0 {
		return nil, err
	}
	return reports[0], err
}

// subject is one system's share of a run.
type subject struct {
	cfg      Config
	selected []behaviour.Behaviour
	fault    spec.Fault
}

// subjects are those of a run that tests some systems; none: the one of cfg.
func subjects(cfg Config, tested []*system.System) ([]subject, error) {
	all := []Config{cfg}
	if len(tested) > 0 {
		all = nil
		for _, sys := range tested {
			one := cfg
			one.System, one.Out, one.beside = sys, filepath.Join(cfg.Out, sys.Name()), tested
			all = append(all, one)
		}
	}
	var out []subject
	var bugs []error
	for i, c := range all {
		c = c.withDefaults()
		selected, fault, err := c.validate()
		if err != nil && len(all) > 1 {
			err = fmt.Errorf("system %s: %w", c.System.Name(), err)
		}
		same := func(o Config) bool { return o.System.Name() == c.System.Name() }
		if len(all) > 1 && slices.ContainsFunc(all[:i], same) {
			err = errors.Join(err, fmt.Errorf("two systems are called %s: each has a folder of that name", c.System.Name()))
		}
		if len(all) > 1 && c.Matrix != behaviour.NoMatrix {
			err = errors.Join(err, errors.New("a matrix tests the suite, and no system"))
		}
		bugs = append(bugs, err)
		out = append(out, subject{cfg: c, selected: selected, fault: fault})
	}
	if err := errors.Join(bugs...); err != nil {
		return nil, &UsageError{err}
	}
	return out, nil
}

// how says in which way a subject's behaviours are recorded.
func (s subject) how() behaviour.How {
	return behaviour.How{
		Fault: s.fault, Isolate: s.cfg.Isolate, Matrix: s.cfg.Matrix,
		Press: behaviour.Pressing{HTTP1: s.cfg.pressed(), Cores: runtime.NumCPU()},
	}
}

func executeEach(ctx context.Context, t ginkgo.GinkgoTestingT, cfg Config, tested []*system.System, open Opener, quiet bool) ([]*v1alpha1.ConformanceReport, error) {
	all, err := subjects(cfg, tested)
	if err != nil {
		return nil, err
	}
	suiteConfig, reporterConfig := ginkgo.GinkgoConfiguration()
	if suiteConfig.ParallelTotal > 1 {
		why := "lastcall runs in one Ginkgo process: its runner is what runs scenarios side by side. Run it without -p or -procs"
		// The ginkgo program waits for a word of each process.
		ginkgo.It("runs in one process", func() { ginkgo.Fail(why) })
		ginkgo.RunSpecs(t, "Lastcall", suiteConfig, reporterConfig)
		return nil, &UsageError{errors.New(why)}
	}
	for _, s := range all {
		if err := os.MkdirAll(s.cfg.Out, 0o755); err != nil {
			return nil, &UsageError{fmt.Errorf("the report's directory: %w", err)}
		}
	}
	if cfg.Matrix != behaviour.NoMatrix {
		// It says nothing of a system, so it has no specs.
		recorders, err := record(ctx, all, open)
		if err != nil {
			return nil, err
		}
		if err := recorders[0].Record(ctx); err != nil {
			return nil, err
		}
		report, err := recorders[0].Finish()
		return []*v1alpha1.ConformanceReport{report}, err
	}
	junit := filepath.Join(cfg.Out, JUnitFile)
	if reporterConfig.JUnitReport == "" {
		reporterConfig.JUnitReport = junit
	} else {
		ginkgo.ReportAfterSuite("the report's own JUnit", func(r ginkgo.Report) {
			if err := reporters.GenerateJUnitReport(r, junit); err != nil {
				ginkgo.Fail(err.Error())
			}
		})
	}
	// A spec that is interrupted waits for its recording to be put away.
	suiteConfig.GracePeriod = 5 * time.Minute
	restore := func() error { return nil }
	if quiet {
		if restore, err = divert(filepath.Join(cfg.Out, specLog)); err != nil {
			return nil, err
		}
		reporterConfig.NoColor = true
		suiteConfig.Timeout = 6 * time.Hour
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if quiet {
		// Who runs it without Ginkgo hears of an interrupt too, and ends ctx with a
		// better reason.
		stop = func(error) {}
	}
	sessions := make([]*session, len(all))
	for i, s := range all {
		sessions[i] = &session{cfg: s.cfg, stop: stop}
		sessions[i].declare(s.selected, len(all) > 1)
	}
	// Ginkgo's own filters (-ginkgo.label-filter, -ginkgo.focus) choose too.
	preview := ginkgo.PreviewSpecs("Lastcall", suiteConfig, reporterConfig)
	for i := range all {
		all[i].selected = chosen(all[i].selected, preview)
	}
	if len(all[0].selected) == 0 {
		return nil, errors.Join(&UsageError{errors.New("the filters given to Ginkgo leave no behaviour to run: `lastcall list` shows the labels")}, restore())
	}
	if suiteConfig.DryRun {
		ginkgo.RunSpecs(t, "Lastcall", suiteConfig, reporterConfig)
		return nil, restore()
	}
	recorders, err := record(ctx, all, open)
	if err != nil {
		return nil, errors.Join(err, restore())
	}
	for i, r := range recorders {
		sessions[i].recorder, sessions[i].judges = r, behaviour.NewJudge(r)
	}
	var recording sync.WaitGroup
	var broken []error
	recording.Go(func() { broken = behaviour.RecordTogether(ctx, recorders...) })
	ginkgo.RunSpecs(t, "Lastcall", suiteConfig, reporterConfig)
	recording.Wait()
	reports := make([]*v1alpha1.ConformanceReport, len(all))
	for i, s := range all {
		err := broken[i]
		if err == nil {
			reports[i], err = behaviour.Finish(s.cfg.Out)
		}
		if err != nil && len(all) > 1 {
			err = fmt.Errorf("system %s: %w", s.cfg.System.Name(), err)
		}
		broken[i] = err
	}
	return reports, errors.Join(append(broken, restore())...)
}

// record opens the stage, and plans what is recorded of each subject.
func record(ctx context.Context, all []subject, open Opener) ([]*behaviour.Recorder, error) {
	first := &all[0]
	var cache behaviour.Cache
	var err error
	// The diagonal is quick, and always recorded.
	if first.cfg.Matrix == behaviour.Whole {
		if cache, err = recordings(ctx, first.cfg); err != nil {
			return nil, err
		}
	}
	// Whatever stands under that name may be another cluster than that of the
	// recordings: each is held against it.
	carried, err := first.cfg.carried(first.selected)
	if err != nil {
		return nil, &UsageError{err}
	}
	stage, whole := cache.Whole(behaviour.Plan(carried, first.how()))
	if !whole || clusterStands(ctx, first.cfg.Name) {
		if stage, err = open(ctx, first.cfg); err != nil {
			return nil, err
		}
	} else {
		first.selected = carried // the kept recordings' stage can't say what it lacks
	}
	speed, unmeasured := behaviour.Speed(ctx)
	switch {
	case unmeasured != nil:
		first.cfg.Say("how fast this machine is was not measured, and is taken for what recordings are priced by: %v", unmeasured)
	case speed < 1:
		first.cfg.Say("a core of this machine does %.2f of what recordings are priced by: fewer of them run side by side", speed)
	}
	out := make([]*behaviour.Recorder, 0, len(all))
	for i, s := range all {
		on := stage
		if i > 0 {
			on, err = viewed(stage, s.cfg)
		}
		var r *behaviour.Recorder
		if err == nil {
			r, err = plan(s, on, cache, speed)
		}
		if err != nil && len(all) > 1 {
			err = fmt.Errorf("system %s: %w", s.cfg.System.Name(), err)
		}
		if err != nil {
			_, cerr := stage.Close(context.WithoutCancel(ctx))
			return nil, errors.Join(err, cerr)
		}
		out = append(out, r)
	}
	for i, r := range out {
		if planned := all[i].cfg.Planned; planned != nil {
			planned(all[i].cfg.Out, r.Plan(), r.Takes())
		}
	}
	return out, nil
}

// plan makes a subject's recorder, on a stage.
func plan(s subject, on behaviour.Stage, cache behaviour.Cache, speed float64) (*behaviour.Recorder, error) {
	r, err := behaviour.NewRecorder(behaviour.Config{
		Stage: on, Dir: s.cfg.Out, Selected: s.selected, Elsewhere: s.cfg.elsewhere, How: s.how(), Cache: cache, Price: price(s.cfg.Stage, speed),
		Here: s.cfg.Stage != StageCluster, WaitIdle: s.cfg.WaitIdle,
		Claims: s.cfg.Stage == StageHost || s.cfg.System != nil,
		Report: skeleton(s.cfg, s.fault), Progress: s.cfg.Progress,
	})
	if err != nil {
		return nil, err
	}
	return r, showSystem(s.cfg)
}

// viewer is a stage on which several systems are tested.
type viewer interface {
	// View is the stage as another system's recordings have it. What it made is removed with
	// the stage.
	View(cfg Config) (behaviour.Stage, error)
}

// viewed is a stage as another subject's recordings have it.
func viewed(stage behaviour.Stage, cfg Config) (behaviour.Stage, error) {
	v, ok := stage.(viewer)
	if !ok {
		return nil, fmt.Errorf("stage %s takes one system", cfg.Stage)
	}
	return v.View(cfg)
}

// price is what recording takes on a stage, on a machine of a speed.
func price(stage string, speed float64) behaviour.Price {
	of := behaviour.OnCluster
	if stage == StageHost {
		of = behaviour.OnHost
	}
	of.Speed = speed
	return of
}

// chosen are the behaviours whose specs Ginkgo would run.
func chosen(selected []behaviour.Behaviour, preview types.Report) []behaviour.Behaviour {
	runs := map[string]bool{}
	for _, spec := range preview.SpecReports {
		if spec.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
			continue
		}
		for _, label := range spec.Labels() {
			if id, ok := strings.CutPrefix(label, "id:"); ok {
				runs[id] = true
			}
		}
	}
	// The specs are declared anew from selected when they are run.
	return slices.DeleteFunc(slices.Clone(selected), func(b behaviour.Behaviour) bool { return !runs[b.ID] })
}

// divert sends Ginkgo's own words to a file: the report says them better.
func divert(path string) (func() error, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("the log of the specs: %w", err)
	}
	old := formatter.ColorableStdOut
	formatter.ColorableStdOut = f
	return func() error {
		formatter.ColorableStdOut = old
		return f.Close()
	}, nil
}

// skeleton is the report before there is anything to tell.
func skeleton(cfg Config, fault spec.Fault) v1alpha1.ConformanceReport {
	r := v1alpha1.ConformanceReport{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind}
	r.Metadata = v1alpha1.Metadata{Name: filepath.Base(cfg.Out), Date: time.Now().UTC().Truncate(time.Second)}
	r.Suite = v1alpha1.ThisSuite()
	r.Implementation = cfg.Implementation
	r.Stage = cfg.Stage
	r.Environment.CPUs = runtime.NumCPU()
	r.Settings = v1alpha1.Settings{
		P: v1alpha1.Duration(cfg.P), Lag: v1alpha1.Duration(cfg.Lag), Profile: cfg.Profile, Labels: cfg.Labels, Selected: cfg.Behaviours,
		Fault: fault, Isolate: cfg.Isolate, Strict: cfg.Strict,
	}
	if cfg.System != nil {
		r.Settings.System = cfg.System.Metadata.Name
	}
	r.Deviations = deviations(cfg)
	return r
}

// deviations are the known ones of what is tested, as a report has them.
func deviations(cfg Config) []v1alpha1.Deviation {
	if cfg.System == nil {
		return nil
	}
	var out []v1alpha1.Deviation
	for _, d := range cfg.System.Deviations {
		out = append(out, v1alpha1.Deviation{Behaviour: d.Behaviour, Reason: d.Reason, Link: d.Link})
	}
	return out
}

// session is one run in Ginkgo's hands.
type session struct {
	cfg      Config
	recorder *behaviour.Recorder
	judges   *behaviour.Judge
	stop     func(why error) // the recording
}

// specTimeout bounds a spec, which waits for all recordings before its own.
const specTimeout = 3 * time.Hour

// declare makes one spec for each behaviour. A spec waits until its scenario
// was recorded, and judges. named: its system is one of several.
func (s *session) declare(selected []behaviour.Behaviour, named bool) {
	name := "lastcall"
	if named {
		name = s.cfg.System.Name()
	}
	ginkgo.Describe(name, func() {
		for _, b := range selected {
			ginkgo.It(b.ID+": "+b.Title, labels(b, s.cfg.Stage), ginkgo.SpecTimeout(specTimeout), func(ctx ginkgo.SpecContext) {
				s.judge(ctx, b)
			})
		}
	})
}

func labels(b behaviour.Behaviour, stage string) ginkgo.Labels {
	area, _, _ := strings.Cut(b.ID, ".")
	out := ginkgo.Labels{
		"id:" + b.ID, "area:" + area, "level:" + string(b.Level), "profile:" + string(b.Profile),
		"stage:" + stage, "cost:" + fmt.Sprintf("%.1f", b.Cost()),
	}
	for _, d := range b.Delays() {
		out = append(out, "latency:"+d.String())
	}
	for _, n := range b.Needs {
		out = append(out, "needs:"+string(n))
	}
	return append(out, b.Labels...)
}

// judge is the body of a spec.
func (s *session) judge(ctx ginkgo.SpecContext, b behaviour.Behaviour) {
	if skip := s.recorder.Skipped()[b.ID]; skip.Why != "" {
		ginkgo.Skip(skip.Why)
	}
	done := s.recorder.Done(b.ID)
	select {
	case <-done:
	case <-ctx.Done():
		// The recorder ends its recordings and keeps them: what they are worth is
		// judged below.
		s.stop(fmt.Errorf("stopped by Ginkgo: %w", context.Cause(ctx)))
		<-done
	}
	verdict, err := s.judges.Of(b.ID)
	if err != nil {
		ginkgo.Fail("Error: " + err.Error())
	}
	ginkgo.AddReportEntry("verdict", verdict.Verdict.String(), types.ReportEntryVisibilityFailureOrVerbose)
	for _, f := range verdict.Findings {
		ginkgo.AddReportEntry(f.Check, f.Actual, types.ReportEntryVisibilityFailureOrVerbose)
	}
	switch state, why := outcome(verdict, deviations(s.cfg), s.cfg.Strict); state {
	case types.SpecStateSkipped:
		ginkgo.Skip(why)
	case types.SpecStateFailed:
		ginkgo.Fail(why)
	}
}

// outcome is how a verdict ends its spec, and what JUnit says of it.
func outcome(b v1alpha1.Behaviour, known []v1alpha1.Deviation, strict bool) (types.SpecState, string) {
	switch b.Verdict {
	case spec.Pass:
		return types.SpecStatePassed, ""
	case spec.Skipped:
		return types.SpecStateSkipped, b.Reason
	case spec.Fail:
		for _, d := range known {
			if d.Behaviour == b.ID {
				// JUnit has no word for it: it shall be read there, and break no build.
				return types.SpecStateSkipped, fmt.Sprintf("Fail, a known deviation: %s\n%s", d, failure(b))
			}
		}
		if b.Level == spec.May || (b.Level == spec.Should && !strict) {
			return types.SpecStatePassed, "" // a warning: the report has it
		}
		return types.SpecStateFailed, failure(b)
	default:
		return types.SpecStateFailed, fmt.Sprintf("%s: %s", b.Verdict, b.Reason)
	}
}

// failure is a failed behaviour in a few lines, for JUnit's readers.
func failure(b v1alpha1.Behaviour) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s %s: %s\n", b.Level, b.ID, b.Title)
	for _, f := range b.Findings {
		if f.Verdict != spec.Fail {
			continue
		}
		fmt.Fprintf(&w, "expected: %s\nseen: %s\n", f.Expected, f.Actual)
		for _, c := range f.Culprits {
			fmt.Fprintf(&w, "  %s %s %s\n", c.At.Round(time.Millisecond), c.Target, c.Text)
		}
	}
	return w.String()
}
