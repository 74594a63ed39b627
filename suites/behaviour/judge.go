// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// readAll reads every recording of a report's directory. A live run and
// `lastcall report rejudge` both start here, so they can't differ.
func readAll(dir string) (*judgement, Run, error) {
	run, err := readRun(dir)
	if err != nil {
		return nil, run, err
	}
	j, err := readPlan(dir, run, run.Plan)
	return j, run, err
}

// readPlan reads the recordings of some of a run's scenarios.
func readPlan(dir string, run Run, plan []Scenario) (*judgement, error) {
	j := &judgement{fault: run.Report.Settings.Fault, profile: run.Report.Settings.Profile, cores: cmp.Or(run.Cores, OnCluster.cores())}
	j.recs = make([]recording, len(plan))
	err := eachOf(len(plan), runtime.GOMAXPROCS(0), func(i int) (err error) {
		j.recs[i], err = readRecording(dir, plan[i], run.Report.Settings.P.D())
		return err
	})
	return j, err
}

// eachOf does something with each of n recordings, so many at a time. It returns the
// first error.
func eachOf(n, atATime int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(atATime)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// Judge judges the behaviours of a run one by one while it is recorded. Each
// history is read once. It is safe for concurrent use.
type Judge struct {
	dir  string
	run  Run
	plan func() []Scenario          // by now: a control may have been halved
	over func(scenario string) bool // it is recorded, and its history is whole

	mu   sync.Mutex
	read map[string]reading
	// blind is what the controls, which are recorded first, say of all; nil: they are not
	// over yet.
	blind blindness
}

// reading is a recording, or why it can't be read.
type reading struct {
	recording
	err error
}

// NewJudge makes a judge of what a recorder records.
func NewJudge(r *Recorder) *Judge {
	return &Judge{dir: r.cfg.Dir, run: r.run, plan: r.Plan, over: r.over, read: map[string]reading{}}
}

// Of judges one behaviour whose own scenario, and the control, were recorded. Of a run
// that was stopped, what is not over was not recorded.
func (k *Judge) Of(id string) (v1alpha1.Behaviour, error) {
	b, ok := Find(id)
	if !ok {
		return v1alpha1.Behaviour{}, fmt.Errorf("no behaviour is called %q", id)
	}
	about := func(s Scenario) bool { return slices.Contains(s.Behaviours, id) }
	k.mu.Lock()
	defer k.mu.Unlock()
	k.readFor(about)
	j := &judgement{fault: k.run.Report.Settings.Fault}
	var own []int
	controlled := true
	for _, s := range k.plan() {
		if !about(s) && !s.Control {
			continue
		}
		r, seen := k.read[s.Name]
		if r.err != nil {
			return v1alpha1.Behaviour{}, r.err
		}
		if !seen {
			r.meta.Scenario = s
			controlled = controlled && !s.Control
		}
		if about(s) {
			own = append(own, len(j.recs))
		}
		j.recs = append(j.recs, r.recording)
	}
	if len(own) == 0 {
		return v1alpha1.Behaviour{}, fmt.Errorf("the run has no scenario for %s", id)
	}
	blind := k.blind
	if blind == nil {
		blind = j.blind()
	}
	if controlled {
		k.blind = blind
	}
	var parts []v1alpha1.Behaviour
	for _, i := range own {
		r := j.recs[i]
		parts = append(parts, r.judge(r.meta.Scenario.recorded(b, k.run.Report.Settings.Profile), blind))
	}
	return merged(parts)[0], nil
}

// readFor reads the histories that a behaviour is judged on, one after the other, because
// what is still recorded needs the processors; and all that are left, side by side, once
// nothing is recorded any more. mu is held.
func (k *Judge) readFor(about func(Scenario) bool) {
	plan := k.plan()
	recorded := !slices.ContainsFunc(plan, func(s Scenario) bool { return !k.over(s.Name) })
	var unread []Scenario
	for _, s := range plan {
		if _, seen := k.read[s.Name]; !seen && k.over(s.Name) && (recorded || about(s) || s.Control) {
			unread = append(unread, s)
		}
	}
	atATime := 1
	if recorded {
		atATime = runtime.GOMAXPROCS(0)
	}
	read := make([]reading, len(unread))
	_ = eachOf(len(unread), atATime, func(i int) error {
		read[i].recording, read[i].err = readRecording(k.dir, unread[i], k.run.Report.Settings.P.D())
		return nil
	})
	for i, s := range unread {
		k.read[s.Name] = read[i]
	}
}

// recording is one scenario, read back.
type recording struct {
	meta  Meta
	scene assertions.Case
	// recorded: there is a history at all.
	recorded bool
	// unsound is why nothing that the history says proves anything: see unsound.
	unsound string
}

func readRecording(dir string, s Scenario, p time.Duration) (recording, error) {
	r := recording{meta: Meta{Scenario: s}}
	h := historyDir(dir, s.Name)
	meta, err := readMeta(h)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.meta = meta
	if r.meta.Format > Format {
		return r, fmt.Errorf("%s is of format %d, and this version reads up to %d: judge it with the lastcall that recorded it, or a newer one", filepath.Join(h, scenarioFile), r.meta.Format, Format)
	}
	if !reflect.DeepEqual(r.meta.Scenario, s) {
		return r, fmt.Errorf("%s is of another scenario than the run's plan says", filepath.Join(h, scenarioFile))
	}
	tl, err := timeline.Read(h)
	if err != nil {
		return r, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	r.recorded, r.unsound = true, unsound(r.meta, tl)
	r.scene = assertions.NewCase(tl, p)
	r.scene.MinDrain, r.scene.Deadline = s.Topology.MinDrain, s.Topology.Deadline
	r.scene.UntilKilled = s.Topology.UntilKilled()
	return r, nil
}

// judgement judges recordings one by one, and then what lies between them.
type judgement struct {
	// fault is the run's own: scenarios with another are of its matrix.
	fault   spec.Fault
	profile string
	recs    []recording
	// cores is how much of the machine they could have.
	cores float64
}

// ofMatrix says whether a recording is a row of the kill matrix, and no
// evidence about the system.
func (j *judgement) ofMatrix(r recording) bool { return r.meta.Scenario.Fault != j.fault }

// blindness says why a stream to who has a role would not see a loss; "" where it would.
type blindness func(role system.Role, of flow.Flow) string

// blind says it by what the controls saw of a death. Without a recorded control every
// stream is blind.
func (j *judgement) blind() blindness {
	type sight struct {
		seen map[flow.Flow]int
		why  string
	}
	controls := map[system.Role]*sight{}
	for _, r := range j.recs {
		if !r.meta.Scenario.Control || j.ofMatrix(r) {
			continue
		}
		role := r.meta.Scenario.Topology.Role
		if controls[role] == nil {
			controls[role] = &sight{seen: map[flow.Flow]int{}, why: uncontrolled}
		}
		c := controls[role]
		if !r.recorded {
			continue
		}
		if d := r.doubt(); d != "" {
			c.why = "the control proves nothing: " + d
			continue
		}
		for k, n := range assertions.Sighted(r.scene) {
			c.seen[k] += n
		}
		c.why = "the control killed pods, and this stream did not see it: it would not see a loss either"
	}
	return func(role system.Role, of flow.Flow) string {
		c := controls[role]
		if c == nil && len(controls) == 1 {
			// Before 2026-11-25 a run had one control for all.
			c = slices.Collect(maps.Values(controls))[0]
		}
		if c == nil {
			return of.String() + ": " + uncontrolled
		}
		// Short requests were there themselves, beside those that stood in.
		_, there := c.seen[of]
		there = there || assertions.Long(of)
		if there && c.seen[assertions.StandIn(of)] > 0 {
			return ""
		}
		if c.seen[of] > 0 {
			return ""
		}
		return of.String() + ": " + c.why
	}
}

// uncontrolled is why every stream is blind where nothing was killed.
const uncontrolled = "no control was recorded: nobody knows whether this stream can see a death"

// doubt says why a recording can't carry a Pass; "" when it can.
func (r recording) doubt() string {
	c := r.scene
	if why := r.ownKill(); why != "" {
		return why
	}
	switch {
	case r.meta.Doubt != "":
		return r.meta.Doubt
	case r.unsound != "":
		return r.unsound
	case c.Steady == 0:
		return "the steady gate never opened"
	case c.Disturbed == 0:
		return "nothing was disturbed"
	case !r.meta.Ended:
		return "the recording was stopped before its end"
	}
	for _, e := range c.Timeline.Events {
		switch e.Kind {
		case timeline.AgentLost:
			return fmt.Sprintf("the agent %s was lost: %s", e.Attrs["agent"], e.Attrs["why"])
		case timeline.WatchGap:
			// Nobody judges by nodes or by the cluster's own events; and by the wire only who looks for its gaps himself.
			if e.Subject != "nodes" && e.Subject != "events" && e.Subject != wireGap {
				return fmt.Sprintf("there is a gap in what was seen of %s: %s", e.Subject, e.Attrs["why"])
			}
		case timeline.LedgerTail:
			// Who is killed may be in the middle of a line: it began nothing by it.
			killed := slices.ContainsFunc(c.Terminations, func(t assertions.Ending) bool { return t.UID == e.Subject && t.Killed() })
			if p := e.Attrs["partial"]; p != "" && p != "0" && !r.meta.Scenario.Control && !killed {
				return fmt.Sprintf("the ledger of pod %s ends in the middle of a line", e.Subject)
			}
		}
	}
	if n, of := baseline(c); of < steadyRun {
		return fmt.Sprintf("the baseline is too short: %d of the %d requests that it takes", of, steadyRun)
	} else if n > 0 {
		return fmt.Sprintf("the baseline was not clean: %d of %d requests that were begun before anything was disturbed failed", n, of)
	}
	if c.Cancelled > 0 {
		return fmt.Sprintf("the generator itself gave up attempts: %d of them", c.Cancelled)
	}
	if why := unsent(c); why != "" {
		return why
	}
	if why := r.unseen(); why != "" {
		return why
	}
	if why := r.unpressed(); why != "" {
		return why
	}
	return ""
}

// unseen says which termination, of those that the disruption must have
// brought about, was not seen; or which direct stream reached another pod.
func (r recording) unseen() string {
	c := r.scene
	seen := map[string]bool{}
	for _, t := range c.Terminations {
		seen[t.UID] = true
	}
	for _, e := range c.Timeline.EventsOf(timeline.Disruption, "") {
		if e.Attrs["what"] == string(disrupt.Delete) && !seen[e.Subject] {
			return fmt.Sprintf("pod %s was deleted, and its deletion was never seen", e.Name)
		}
	}
	if d := r.meta.Scenario.Disrupt; d.Kind == disrupt.RollOut && len(c.Terminations) < r.meta.Scenario.Topology.Replicas {
		return fmt.Sprintf("a rolling update of %d pods ended %d in front of the suite's eyes", r.meta.Scenario.Topology.Replicas, len(c.Terminations))
	}
	for _, s := range c.Timeline.Samples {
		if target := s.Stream.Target(); s.Stream.Flow().Path == flow.Direct && !s.Failed() && s.Reached != "" && s.Reached != target {
			return fmt.Sprintf("a dial to the address of pod %s was answered by pod %s", target, s.Reached)
		}
	}
	return ""
}

// baseline counts the failures, and all attempts, between the steady gate and
// the first disruption. What should have been answered by then, was not, and
// failed is a failure here, also what had been hanging since before the gate, or it would
// be laid at the door of whatever was disturbed. An answer that is slow and whole is none, nor is what fails beside
// connections that its own clients cut.
func baseline(c assertions.Case) (failed, of int) {
	for _, s := range c.Timeline.Samples {
		if s.Start >= c.Disturbed || s.Start < c.Steady && s.End < c.Disturbed || assertions.Scouts(s) || assertions.LeftBehind(s) {
			continue
		}
		late := s.End >= c.Disturbed
		if late && s.Start > c.Disturbed-assertions.Patience(s) {
			continue // it was in flight, as it may be
		}
		of++
		if s.Failed() && !cutsItself(s.Stream.Flow()) && !assertions.LostBehindEnd(s) {
			failed++
		}
	}
	return failed, of
}

// hurries says whether a flow that is never served has its like that takes less, and is: the system gives up answers
// that take as long, as it may, and what the behaviour asks did not come up. So it may a header that is late, and what is sent
// ahead, whose like are all requests in the protocol.
func (r recording) hurries(b Behaviour, p load.Profile) bool {
	switch p.Op {
	case flow.HalfHeader, flow.Belated, flow.Ahead, flow.AheadPost:
		return slices.ContainsFunc(r.scene.Timeline.Samples, func(s timeline.Sample) bool {
			return s.Stream.Flow().Protocol == p.Protocol && !s.Failed()
		})
	}
	return slices.ContainsFunc(b.Traffic, func(q load.Profile) bool {
		like := q.Flow
		like.Takes = p.Takes
		if like != p.Flow || q.Takes == 0 || q.Takes >= p.Takes {
			return false
		}
		_, never := assertions.Claimed(r.scene, q.Flow, features(q))
		return !never
	})
}

// judge puts one behaviour's checks to its recording.
func (r recording) judge(b Behaviour, blind blindness) v1alpha1.Behaviour {
	out := entry(b)
	out.Scenario, out.Recorded = r.meta.Scenario.Name, r.recorded
	if !r.recorded {
		out.Verdict, out.Reason = spec.Inconclusive, "the scenario was not recorded"
		return out
	}
	if b.Level != spec.Control {
		for _, p := range b.Traffic {
			if f, never := assertions.Claimed(r.scene, p.Flow, features(p)); never && !r.hurries(b, p) {
				out.Findings = append(out.Findings, f)
			}
		}
		if len(out.Findings) > 0 {
			out.Verdict = spec.Fail
			if r.unsound != "" {
				out.Verdict, out.Reason = spec.Inconclusive, unproven(out.Findings, r.unsound)
			}
			return out
		}
	}
	verdict := spec.Skipped
	for _, k := range b.Checks {
		f := k.Run(r.scene)
		verdict = spec.Worse(verdict, f.Verdict)
		out.Findings = append(out.Findings, f)
		if f.Verdict == spec.Inconclusive && out.Reason == "" {
			out.Reason = f.Actual
		}
	}
	out.Verdict = verdict
	switch why := r.scarce(); {
	case verdict == spec.Skipped:
		out.Reason, out.Skip = out.Findings[0].Actual, spec.Moot
	case verdict == spec.Inconclusive && why != "":
		out.Reason = why + "; " + out.Reason
	}
	if r.meta.Error != "" && !(verdict == spec.Fail && r.cutShort()) {
		out.Verdict, out.Reason = spec.Error, r.meta.Error
		return out
	}
	if d := cmp.Or(r.doubt(), r.past(b)); d != "" && !(verdict == spec.Fail && r.cutShort()) {
		// A violation stands, however the recording went on after it; but
		// what was not clean before anything was disturbed proves nothing
		// against anybody.
		out.Verdict, out.Reason = spec.Inconclusive, unproven(out.Findings, d)
		return out
	}
	if verdict == spec.Fail && !slices.ContainsFunc(out.Findings, func(f spec.Finding) bool { return f.Certain }) {
		// It was asked for more than the machine does: connections wait in its listeners until they are
		// reset, and kubelets kill what does not answer their probes. What no lack of CPU makes stands.
		if d := r.starvedNode(); d != "" {
			out.Verdict, out.Reason = spec.Inconclusive, unproven(out.Findings, d)
			return out
		}
	}
	if r.meta.Scenario.Control {
		return out
	}
	var unseen []string
	for _, p := range b.Traffic {
		if !p.Sights() {
			continue
		}
		if why := blind(r.meta.Scenario.Topology.Role, p.Flow); why != "" {
			unseen = append(unseen, why)
		}
	}
	// A stream that was absent, or fell silent, saw nothing either.
	for _, p := range b.Traffic {
		if !r.meta.Scenario.Topology.Evenly(p) {
			continue // what it has to show, the floors say
		}
		if why := assertions.Silence(r.scene, p.Flow, p.Rate); why != "" {
			unseen = append(unseen, why)
		}
	}
	if len(unseen) > 0 && verdict == spec.Pass {
		out.Verdict, out.Reason = spec.Inconclusive, some(unseen)
	}
	return out
}

// scarce says what the recording took more of than the system has: instances that end, or
// backends that it asks. "": nothing.
func (r recording) scarce() string {
	c, s := r.scene, r.meta.Scenario
	if n := len(c.Terminations); n < s.Disrupt.Targets {
		return fmt.Sprintf("this takes the end of %d instances, and %d ended", s.Disrupt.Targets, n)
	}
	if !s.Topology.Behind {
		return ""
	}
	asked := map[string]bool{}
	for _, e := range c.Timeline.Ledger {
		if e.At < c.Disturbed {
			asked[e.Pod] = true
		}
	}
	if n := len(asked); n > 0 && n < s.Topology.Replicas {
		return fmt.Sprintf("this takes %d backends, and the system sent requests to %d of them", s.Topology.Replicas, n)
	}
	return ""
}

// unproven tells why nothing can be concluded: behind the violation that a check saw, if
// one did.
func unproven(findings []spec.Finding, why string) string {
	for _, f := range findings {
		if f.Verdict == spec.Fail {
			return fmt.Sprintf("%s: that proves nothing, because %s", f.Actual, why)
		}
	}
	return why
}

// some tells the first of many reasons: a client that stood still is one for
// each of its streams.
func some(reasons []string) string {
	const told = 3
	if len(reasons) <= told+1 {
		return strings.Join(reasons, "; ")
	}
	return fmt.Sprintf("%s; and %d more streams like these", strings.Join(reasons[:told], "; "), len(reasons)-told)
}

// cutShort: the recording was sound as far as it goes.
func (r recording) cutShort() bool {
	n, of := baseline(r.scene)
	return r.unsound == "" && r.meta.Doubt == "" && r.scene.Steady != 0 && n == 0 && of > 0
}

// entry is a behaviour in a report, before its verdict.
func entry(b Behaviour) v1alpha1.Behaviour {
	return v1alpha1.Behaviour{
		ID: b.ID, Title: b.Title, Level: b.Level, Refs: b.Refs,
		Profile: b.Profile, Why: b.Why, Causes: b.Causes, Fix: b.Fix,
	}
}

// judge judges all behaviours of one recording.
func (j *judgement) judge(r recording, blind blindness) ([]v1alpha1.Behaviour, error) {
	var out []v1alpha1.Behaviour
	for _, id := range r.meta.Scenario.Behaviours {
		b, ok := Find(id)
		if !ok {
			return nil, fmt.Errorf("the recording is of behaviour %q, which this version does not know", id)
		}
		out = append(out, r.judge(r.meta.Scenario.recorded(b, j.profile), blind))
	}
	return out, nil
}

// verdicts judges every behaviour of every recording, in order of the IDs.
func (j *judgement) verdicts(blind blindness) ([]v1alpha1.Behaviour, error) {
	judged := make([][]v1alpha1.Behaviour, len(j.recs))
	err := eachOf(len(j.recs), runtime.GOMAXPROCS(0), func(i int) (err error) {
		if !j.ofMatrix(j.recs[i]) {
			judged[i], err = j.judge(j.recs[i], blind)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return merged(slices.Concat(judged...)), nil
}

// merged are judgements in order of the IDs, one for each behaviour: a control that was
// split is judged by all of its parts.
func merged(all []v1alpha1.Behaviour) []v1alpha1.Behaviour {
	slices.SortStableFunc(all, func(a, b v1alpha1.Behaviour) int { return strings.Compare(a.ID, b.ID) })
	var out []v1alpha1.Behaviour
	for _, b := range all {
		if len(out) == 0 || out[len(out)-1].ID != b.ID {
			out = append(out, b)
			continue
		}
		was := &out[len(out)-1]
		findings := slices.Concat(was.Findings, b.Findings)
		recorded := was.Recorded && b.Recorded
		if spec.Worse(was.Verdict, b.Verdict) != was.Verdict {
			*was = b
		}
		was.Findings, was.Recorded = findings, recorded
	}
	return out
}

// unselected are the rules of the catalogue that a report has no word on: without
// them it would look as if those that it has were all.
func unselected(told []v1alpha1.Behaviour) []v1alpha1.Unselected {
	var out []v1alpha1.Unselected
	for _, b := range Catalogue() {
		has := slices.ContainsFunc(told, func(t v1alpha1.Behaviour) bool { return t.ID == b.ID })
		if !has && b.Level != spec.Control {
			out = append(out, v1alpha1.Unselected{ID: b.ID, Level: b.Level, Profile: b.Profile})
		}
	}
	return out
}

// fill writes verdicts and evidence into a report.
func (j *judgement) fill(report *v1alpha1.ConformanceReport, run Run) error {
	blind := j.blind()
	verdicts, err := j.verdicts(blind)
	if err != nil {
		return err
	}
	report.Behaviours = verdicts
	for _, id := range slices.Sorted(maps.Keys(run.Skipped)) {
		if b, ok := Find(id); ok {
			e := entry(b)
			e.Verdict, e.Reason, e.Skip = spec.Skipped, run.Skipped[id].Why, run.Skipped[id].Kind
			report.Behaviours = append(report.Behaviours, e)
		}
	}
	report.Unselected = nil
	if run.Matrix == NoMatrix {
		report.Unselected = unselected(report.Behaviours)
	}
	report.Scenarios, report.Controls = nil, nil
	var spread []time.Duration
	var from, to time.Time
	for _, r := range j.recs {
		sc := r.describe()
		sc.Timing = r.timing(j.fault)
		report.Scenarios = append(report.Scenarios, sc)
		if r.recorded && (from.IsZero() || r.meta.From.Before(from)) {
			from = r.meta.From
		}
		if r.meta.To.After(to) {
			to = r.meta.To
		}
		if j.ofMatrix(r) {
			continue
		}
		report.Controls = append(report.Controls, r.controls()...)
		if r.recorded {
			spread = append(spread, r.propagation(r.scene)...)
			if report.Egress != nil {
				same, other := noRoute(r)
				report.Egress.NoRouteSameNode += same
				report.Egress.NoRouteOtherNode += other
			}
		}
	}
	report.Timing = nil
	if run.Matrix != Whole { // some of whose recordings may be of another day
		report.Timing = j.timings(report.Scenarios, report.Settings.P.D(), to.Sub(from))
	}
	if report.Matrix, err = j.matrix(run, blind); err != nil {
		return err
	}
	report.Propagation = nil
	if len(spread) > 0 {
		slices.Sort(spread)
		report.Propagation = &v1alpha1.Propagation{
			N: len(spread), Median: v1alpha1.Duration(spread[len(spread)/2]), Worst: v1alpha1.Duration(spread[len(spread)-1]),
		}
	}
	report.Conclude()
	return nil
}
