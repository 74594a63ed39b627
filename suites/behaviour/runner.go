// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The budgets of a recording. None of them is normative.
const (
	// steadyBudget is how long the streams may take to run clean, beside the longest
	// request.
	steadyBudget = 60 * time.Second
	// baselineFor is the undisturbed stretch before the first disruption.
	baselineFor = 5 * time.Second
	// tailFor is how much longer than the last exit + P the load goes on, but in a control.
	tailFor = 2 * time.Second
	// ledgerBudget is how long the ledger's tail may take to arrive.
	ledgerBudget = 15 * time.Second
	// servedBudget is how long the backends' word on the closed-loop load may take.
	servedBudget = 5 * time.Second
	// waitingFor is how long recordings wait for the machine before that is told.
	waitingFor = 5 * time.Second
	// recordedAgain is how often a control is recorded again that proved nothing on a busy
	// machine.
	recordedAgain = 2
	// cleanupBudget bounds the removal of a scenario after it ended, also
	// when the run was cancelled.
	cleanupBudget = 2 * time.Minute
)

// Stage is where scenarios are recorded: a cluster, or a host.
type Stage interface {
	// Fit is a behaviour as the stage carries it: without the traffic that its
	// system does not claim to take, and with the times of that system. The Skip says
	// why it can't; it is zero if it can.
	Fit(b Behaviour) (Behaviour, Skip)
	// Describe says where the run takes place.
	Describe(ctx context.Context) (v1alpha1.Environment, error)
	// Open brings a scenario's topology up, ready and observed, not yet
	// under load. What it sees from then on goes to the sink. ErrDown is its error where
	// that is the doing of the system under test.
	Open(ctx context.Context, s Scenario, sink *Sink) (Ground, error)
	// Close proves that nothing leaked, and removes what Open shared.
	Close(ctx context.Context) (*v1alpha1.Egress, error)
}

// ErrDown says that the system under test does not come up, or serves nothing: what there is
// to mend is its file, or itself, and nothing is worth recording before.
var ErrDown = errors.New("the system under test is not there to be tested")

// Ground is one scenario's topology, standing.
type Ground interface {
	// Start begins the traffic. It returns the names of the streams, and
	// the nodes that the clients run on.
	Start(ctx context.Context) (streams []flow.Stream, nodes []string, err error)
	// Disrupt does what the scenario says, and returns when everything that
	// it ended is gone.
	Disrupt(ctx context.Context) error
	// Stop ends the pacing and returns when nothing is in flight.
	Stop(ctx context.Context) error
	// Close removes the topology.
	Close(ctx context.Context) error
}

// Config is what a run is asked for.
type Config struct {
	Stage Stage
	// Dir is the report's directory. It must not hold another run.
	Dir string
	// Selected are the behaviours, How says in which way they are recorded.
	Selected []Behaviour
	How      How
	// Elsewhere says which of them another recorder of the same run records; nil: none.
	Elsewhere func(Behaviour) Skip
	// Claims: what is tested says itself what it serves. Traffic that it never serves
	// is a claim that does not hold; elsewhere it is a stage that does not work.
	Claims bool
	// Price is what recording takes on this stage.
	Price Price
	// Here: the load runs on this machine. It is looked at before the first recording.
	Here bool
	// WaitIdle is how long the first recording waits at most for this machine to be calm.
	WaitIdle time.Duration
	// Cache keeps recordings of a kill matrix.
	Cache Cache
	// Report is the skeleton of the report: what was asked for.
	Report v1alpha1.ConformanceReport
	// Progress is told what is being done, for people.
	Progress func(Progress)
}

// Progress is what a person who waits wants to know.
type Progress struct {
	// Scenario and Step say what is going on; Of counts the scenarios.
	Scenario string
	Step     string
	N, Of    int
	// Left is about how long the run still takes.
	Left time.Duration
	// Samples and Failed are the scenario's so far.
	Samples, Failed int
}

// Recorder records the scenarios of a run.
type Recorder struct {
	cfg  Config
	run  Run
	done map[string]chan struct{}
	// of is how many recordings the plan was made with. Halves of a control are not counted.
	of int

	stolen stolen

	giveUp context.CancelCauseFunc
	// beside are the recorders that record together with this one, itself among them.
	beside []*Recorder

	mu    sync.Mutex
	begun map[string]time.Time
	ended map[string]bool
	stood bool // a recording's load has run clean
}

// nothingToRecord says of each selected behaviour why it can't be recorded, those with the same
// reason together.
func nothingToRecord(skipped map[string]Skip) error {
	of := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(skipped)) {
		why := skipped[id].Why
		of[why] = append(of[why], id)
	}
	text := "nothing to record: no behaviour is selected that this stage can carry"
	for _, why := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Compare(of[a][0], of[b][0]) }) {
		text += fmt.Sprintf("\n  %s: %s", strings.Join(of[why], ", "), why)
	}
	return errors.New(text)
}

// NewRecorder plans a run. What a stage can't carry is skipped with its
// reason; a plan with nothing to record is an error.
func NewRecorder(cfg Config) (*Recorder, error) {
	if err := Validate(Catalogue()); err != nil {
		return nil, fmt.Errorf("the catalogue is broken: %w", err)
	}
	r := &Recorder{cfg: cfg, done: map[string]chan struct{}{}, begun: map[string]time.Time{}, ended: map[string]bool{}}
	r.beside = []*Recorder{r}
	r.run = Run{Report: cfg.Report, Matrix: cfg.How.Matrix, Skipped: map[string]Skip{}}
	var take []Behaviour
	for _, b := range cfg.Selected {
		fit, skip := cfg.fit(b)
		if skip.Why != "" {
			r.run.Skipped[b.ID] = skip
			continue
		}
		take = append(take, fit)
	}
	if len(take) == 0 {
		return nil, nothingToRecord(r.run.Skipped)
	}
	if fit, skip := cfg.Stage.Fit(controlOf(Catalogue())); skip.Why == "" {
		take = withControl(take, fit)
	}
	r.run.Plan = cfg.Price.fitting(Plan(take, cfg.How), take)
	r.run.Cores = cfg.Price.cores()
	cfg.Price.order(r.run.Plan)
	r.of = len(r.run.Plan)
	for _, s := range r.run.Plan {
		r.done[s.Name] = make(chan struct{})
	}
	return r, nil
}

// fit is a behaviour as it is recorded here, or why it is not.
func (c Config) fit(b Behaviour) (Behaviour, Skip) {
	if c.Elsewhere != nil {
		if skip := c.Elsewhere(b); skip.Why != "" {
			return b, skip
		}
	}
	fit, skip := c.Stage.Fit(b)
	if skip.Why == "" && c.How.Matrix != NoMatrix && len(fit.BrokenBy) == 0 {
		skip = Because(spec.Uncarried, "no fault of its own can be switched on in what it is put to here")
	}
	return fit, skip
}

// withControl adds the control to a selection that lacks it: without it every
// stream is blind (rule 8).
func withControl(selected []Behaviour, control Behaviour) []Behaviour {
	if control.ID == "" || slices.ContainsFunc(selected, func(b Behaviour) bool { return b.Level == spec.Control }) {
		return selected
	}
	return append(slices.Clone(selected), control)
}

// controlOf is the control of a catalogue; the zero value where it has none.
func controlOf(all []Behaviour) Behaviour {
	i := slices.IndexFunc(all, func(b Behaviour) bool { return b.Level == spec.Control })
	if i < 0 {
		return Behaviour{}
	}
	return all[i]
}

// Plan are the scenarios that will be recorded, in their order.
func (r *Recorder) Plan() []Scenario {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.run.Plan)
}

// Takes is about how long recording it takes.
func (r *Recorder) Takes() time.Duration { return r.cfg.Price.predict(r.Plan()) }

// Skipped are the selected behaviours that won't be recorded, with reasons.
func (r *Recorder) Skipped() map[string]Skip { return r.run.Skipped }

// Done is closed when the last recording that a behaviour is judged on has ended,
// however it did; nil for a behaviour that is not recorded.
func (r *Recorder) Done(id string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.Backward(r.run.Plan) {
		if slices.Contains(s.Behaviours, id) {
			return r.done[s.Name]
		}
	}
	return nil
}

// Record records all scenarios, and returns what broke the run as a whole.
// What was recorded stays in the report's directory whatever happens.
func (r *Recorder) Record(ctx context.Context) error { return RecordTogether(ctx, r)[0] }

// begin makes the report's directory, and says there where the run takes place.
func (r *Recorder) begin(ctx context.Context) (env v1alpha1.Environment, err error) {
	if err := os.MkdirAll(filepath.Join(r.cfg.Dir, v1alpha1.HistoryDir), 0o755); err != nil {
		return env, fmt.Errorf("the report's directory: %w", err)
	}
	if _, err := os.Stat(filepath.Join(r.cfg.Dir, runFile)); err == nil {
		return env, fmt.Errorf("%s already holds a run: nothing that was recorded is written over", r.cfg.Dir)
	}
	if env, err = r.cfg.Stage.Describe(ctx); err != nil {
		return env, fmt.Errorf("describing the stage: %w", err)
	}
	r.run.Report.Environment = env
	return env, r.save()
}

// closeStage removes what the stage made, also when the run was cancelled.
func (r *Recorder) closeStage(ctx context.Context) (*v1alpha1.Egress, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupBudget)
	defer cancel()
	return r.cfg.Stage.Close(ctx)
}

func (r *Recorder) save() error {
	return writeJSON(filepath.Join(r.cfg.Dir, runFile), r.run)
}

// lane is what a scenario takes of the machine while it goes up, and when it stands, in
// cores.
type lane struct{ goesUp, stands float64 }

// lanes are the scenarios that run side by side, and what they take.
type lanes struct {
	cores   float64 // that they may take together
	free    float64 // of these
	rising  float64 // what those take, by their prices, that don't stand yet
	running int
	changed time.Time // when the last one began, or ended
}

func (l *lanes) begin(t lane, now time.Time) {
	l.free -= t.goesUp
	l.rising += t.stands
	l.running++
	l.changed = now
}

func (l *lanes) up(t lane) {
	l.free += t.goesUp - t.stands
	l.rising -= t.stands
}

func (l *lanes) end(t lane, now time.Time) {
	l.free += t.stands
	l.running--
	l.changed = now
}

// loaded are the cores of those that stand. Who comes up has a part of its load already,
// which is measured: that counts twice, so that nobody begins on what is not there.
func (l *lanes) loaded() float64 { return l.cores - l.rising }

// room says whether the machine, of so many cores for what stands, has the time for one
// scenario more, by what it has used since another one began or ended.
func (r *Recorder) room(s Scenario, cores float64, since time.Time) bool {
	busy, known, enough := r.stolen.busy(since)
	return !r.cfg.Price.Measured || !known || enough && busy+r.cfg.Price.takes(s).stands <= cores
}

// pick is the first of the scenarios in their order that may begin now: what can run beside the others and fits, or, when nothing
// runs and nothing of that kind is left, what must be alone. -1: none. Of those that run so many are light controls.
func pick(waiting []Scenario, fault spec.Fault, running, controls int, fits func(Scenario) bool) int {
	if len(waiting) == 0 {
		return -1
	}
	if alone(waiting[0], fault) {
		beside := waiting[0].light(fault) && running == controls && fits(waiting[0])
		if running == 0 || beside {
			return 0
		}
		return -1
	}
	if controls > 0 {
		return -1
	}
	return slices.IndexFunc(waiting, func(s Scenario) bool { return !alone(s, fault) && fits(s) })
}

// grain is what adding and subtracting fractions may be off by.
const grain = 1e-6

// recordUntilProven records one scenario, and a control again that proved nothing because
// the machine was busy: it is a calibration of the clients, and no behaviour of the system. What was too much for the machine
// is recorded again in halves. before is what was recorded instead of it, and again how often that was begun anew.
func (r *Recorder) recordUntilProven(ctx context.Context, s Scenario, w ways, before []Attempt, again int) {
	r.record(ctx, s, w, before)
	var halves []Scenario
	if ctx.Err() == nil && again < recordedAgain && s.calibrates(r.cfg.How.Fault) {
		attempt, busy, err := r.provedNothing(s, again+1)
		if err == nil && busy {
			before = append(before, attempt)
			halves, err = r.halve(s)
			r.say(s.Name, fmt.Sprintf("it proved nothing, on a busy machine (%s): it is recorded again%s", attempt.Busy, inParts(len(halves))), w.nth, 0, 0)
		}
		if err != nil {
			r.fault(fmt.Errorf("scenario %s: %w", s.Name, err))
		}
	}
	for _, half := range halves {
		if ctx.Err() != nil {
			break
		}
		w.again()
		r.recordUntilProven(ctx, half, w, before, again+1)
		before = nil // it stands with the first
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[s.Name] = true
}

func inParts(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", in %d parts", n)
}

// halve puts the halves of a control into the plan, in its place.
func (r *Recorder) halve(s Scenario) ([]Scenario, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.run.Plan, func(o Scenario) bool { return o.Name == s.Name })
	last := 0
	for _, o := range r.run.Plan {
		last = max(last, o.Part)
	}
	halves := r.cfg.Price.halved(s, last)
	r.run.Plan = slices.Concat(r.run.Plan[:at], halves, r.run.Plan[at+1:])
	err := r.save()
	for _, half := range halves {
		r.done[half.Name] = r.done[s.Name]
		// What is kept of it stands behind another run's attempts.
		err = errors.Join(err, r.cfg.Cache.drop(half))
	}
	return halves, err
}

// provedNothing looks at a control, and puts it aside where it proved nothing and the
// machine was busy. What was recorded is kept.
func (r *Recorder) provedNothing(s Scenario, nth int) (a Attempt, again bool, err error) {
	rec, err := readRecording(r.cfg.Dir, s, r.run.Report.Settings.P.D())
	if err != nil || !rec.recorded || rec.meta.Error != "" {
		return a, false, err
	}
	a = Attempt{From: rec.meta.From, To: rec.meta.To, Why: rec.proved(), Busy: rec.busy()}
	if a.Why == "" || a.Busy == "" {
		return a, false, nil
	}
	a.History = fmt.Sprintf("%s.busy-%d", s.Name, nth)
	err = os.Rename(historyDir(r.cfg.Dir, s.Name), historyDir(r.cfg.Dir, a.History))
	return a, err == nil, errors.Join(err, r.cfg.Cache.drop(s))
}

// ways are how a recording and those beside it hear of each other.
type ways struct {
	nth int
	// stood is called when the topology stands, up when its load is steady, tail when the disruption is over, and again where all
	// that comes once more.
	stood, up, tail, again func()
	// await waits until the load may begin, and calls waits first where it may not.
	await func(ctx context.Context, waits func()) error
	// begin is called where the load has waited: what the machine did before was for others.
	begin func()
}

// record records one scenario and leaves its Meta beside its history.
func (r *Recorder) record(ctx context.Context, s Scenario, w ways, before []Attempt) {
	meta := Meta{Format: Format, Scenario: s, From: time.Now().UTC()}
	r.mu.Lock()
	r.begun[s.Name] = time.Now()
	r.mu.Unlock()
	meta.BusyFrom, _, _ = cpuTime()
	waited := waitedTime()
	meta.Before = before
	dir := historyDir(r.cfg.Dir, s.Name)
	path := filepath.Join(dir, scenarioFile)
	kept, err := r.cfg.Cache.take(s, dir, r.run.Report.Environment)
	if kept {
		r.say(s.Name, "recorded before, under the same components, behaviours and suite", w.nth, 0, 0)
		return
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = writeJSON(path, meta)
	}
	if err == nil {
		w.begin = func() {
			now := time.Now().UTC()
			meta.Held += now.Sub(meta.From)
			meta.From, waited = now, waitedTime()
			meta.BusyFrom, _, _ = cpuTime()
			r.mu.Lock()
			r.begun[s.Name] = now.Add(-r.cfg.Price.Up)
			r.mu.Unlock()
		}
		err = r.recordIn(ctx, dir, &meta, w)
	}
	meta.To = time.Now().UTC()
	meta.BusyTo, _, _ = cpuTime()
	meta.Waited = portion(waitedTime()-waited, meta.To.Sub(meta.From).Seconds())
	meta.Stolen = r.stolen.worst(meta.From, meta.To)
	switch {
	case err == nil:
		meta.Ended = true
	case ctx.Err() != nil:
		// Stopped by a person: the history says as much, and is kept.
	default:
		meta.Error = err.Error()
		r.mu.Lock()
		if errors.Is(err, ErrDown) && !r.stood {
			r.giveUp(err)
		}
		r.mu.Unlock()
	}
	err = writeJSON(path, meta)
	if err == nil {
		err = r.cfg.Cache.keep(s, dir, r.run.Report.Environment)
	}
	if err != nil {
		r.fault(fmt.Errorf("scenario %s: %w", s.Name, err))
	}
}

// release tells who waits for a scenario's recording that there is nothing more to wait for.
func (r *Recorder) release(scenario string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.done[scenario])
}

// over says whether a scenario's recording has come to its end.
func (r *Recorder) over(scenario string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[scenario]
}

func (r *Recorder) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.Report.Errors = append(r.run.Report.Errors, err.Error())
}

// recordIn is the recording itself: up, load, steady, baseline, disruption,
// tail, stop.
func (r *Recorder) recordIn(ctx context.Context, dir string, meta *Meta, w ways) (err error) {
	s := meta.Scenario
	rec, err := timeline.NewRecorder(dir, timeline.Monotonic())
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, rec.Close())
		meta.Lines = rec.Lines()
	}()
	sink := newSink(rec, s.Fault)
	if s.Asks != nil {
		sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{
			"what": assertions.MarkPlain, "lasts": strconv.FormatBool(s.Asks.Slow != ""),
		}})
	}
	say := func(step string) {
		samples, failed := sink.Counts()
		r.say(s.Name, step, w.nth, samples, failed)
	}

	say("bringing the pods up")
	ground, err := r.cfg.Stage.Open(ctx, s, sink)
	if ground != nil {
		defer func() {
			cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupBudget)
			defer cancel()
			if cerr := ground.Close(cleanup); cerr != nil {
				r.fault(fmt.Errorf("scenario %s: removing it: %w", s.Name, cerr))
			}
		}()
	}
	if err != nil {
		return fmt.Errorf("bringing the topology up: %w", err)
	}
	w.stood()
	held := false
	if err := w.await(ctx, func() {
		held = true
		say("its pods are up; the load waits for those before it to end")
	}); err != nil {
		return err
	}
	if held {
		w.begin()
	}
	streams, nodes, err := ground.Start(ctx)
	if err != nil {
		return fmt.Errorf("starting the load: %w", err)
	}
	meta.Clients = nodes

	say(fmt.Sprintf("%d streams running; waiting until all are clean", len(streams)))
	if err := r.awaitSteady(ctx, sink, streams, steadyBudget+longest(s.Traffic), say); err != nil {
		if ctx.Err() != nil {
			return err
		}
		r.mu.Lock()
		stood := r.stood
		r.mu.Unlock()
		if errors.Is(err, errNothingServed) && !stood {
			return fmt.Errorf("%w: %w", ErrDown, err)
		}
		meta.Doubt = fmt.Sprintf("the steady gate never opened: %v", err)
		return nil
	}
	r.mu.Lock()
	r.stood = true
	r.mu.Unlock()
	w.up()
	sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkSteady}})
	say("steady; recording the baseline")
	from := time.Now()
	busy, _, _ := cpuTime()
	if err := disrupt.Pause(ctx, s.Baseline()); err != nil {
		return err
	}
	busyTo, _, _ := cpuTime()
	meta.Busy = math.Round((busyTo-busy)/time.Since(from).Seconds()*100) / 100
	say(InWords(s.Disrupt))
	if err := ground.Disrupt(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.Disrupt, err)
	}
	say("recording the tail")
	p := r.cfg.Report.Settings.P.D()
	quiet := s.quiet(r.cfg.How.Fault, p)
	if err := disrupt.Pause(ctx, quiet); err != nil {
		return err
	}
	w.tail()
	if err := disrupt.Pause(ctx, s.tail(p)-quiet); err != nil {
		return err
	}
	sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkTail}})
	if err := ground.Stop(ctx); err != nil {
		return fmt.Errorf("ending the load: %w", err)
	}
	if s.Pressure != nil {
		// What is missing after this, the line of the pressure will say.
		_ = sink.awaitServed(ctx, servedBudget)
	}
	if !s.killsLedger() {
		// What is missing after this, the check on the ledger will say.
		_ = sink.awaitLedger(ctx, ledgerBudget)
	}
	say("recorded")
	return sink.Err()
}

// killsLedger: where requests are cut on purpose both sides can't agree on
// every ID, so nobody waits for it.
func (s Scenario) killsLedger() bool { return s.Disrupt.Kind == disrupt.Kill || s.Fault != "" }

// tail is how long the load goes on when the disruption is over. In a control nothing
// is looked at behind P.
func (s Scenario) tail(p time.Duration) time.Duration {
	if s.Control {
		return p
	}
	return p + tailFor
}

// quiet is for how much of the tail others may not go up, which is felt: all of a control's, where a client that is held up says nothing
// of the others; and P of a roll-out's, where each request counts until then.
func (s Scenario) quiet(fault spec.Fault, p time.Duration) time.Duration {
	switch {
	case s.calibrates(fault):
		return s.tail(p)
	case s.Disrupt.Kind == disrupt.RollOut || s.Disrupt.Kind == disrupt.ReplaceProxies:
		return p
	default:
		return 0
	}
}

// longest is how long the longest request of some traffic takes by design.
func longest(traffic []load.Profile) time.Duration {
	var out time.Duration
	for _, p := range traffic {
		out = max(out, p.Takes)
	}
	return out
}

func (r *Recorder) say(scenario, step string, n, samples, failed int) {
	if r.cfg.Progress == nil {
		return
	}
	all := 0
	for _, one := range r.beside {
		all += one.of
	}
	if len(r.beside) > 1 && scenario != "" {
		scenario = cmp.Or(r.cfg.Report.Settings.System, system.Own) + " " + scenario
	}
	r.cfg.Progress(Progress{Scenario: scenario, Step: step, N: n, Of: all, Left: left(r.beside, time.Now()), Samples: samples, Failed: failed})
}

// left is about how long some runs that are recorded together still take: what is predicted of
// their rest, and, once that is more than was predicted of all, as much longer as it took by then.
func left(together []*Recorder, now time.Time) time.Duration {
	var all, rest []Scenario
	var gone []time.Duration // of each of the rest
	took := time.Duration(0) // since the first recording began
	for _, r := range together {
		r.mu.Lock()
		for _, s := range r.run.Plan {
			since := time.Duration(0)
			if at, begun := r.begun[s.Name]; begun {
				since = now.Sub(at)
			}
			took = max(took, since)
			if !r.ended[s.Name] {
				rest, gone = append(rest, s), append(gone, since)
			}
		}
		all = append(all, r.run.Plan...)
		r.mu.Unlock()
	}
	price := together[0].cfg.Price
	left := price.remaining(rest, gone)
	if predicted := price.predict(all); took > predicted {
		left = time.Duration(float64(left) * float64(took) / float64(predicted))
	}
	return left
}
