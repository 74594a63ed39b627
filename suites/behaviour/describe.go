// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// describe is the scenario as the report tells it.
func (r recording) describe() v1alpha1.Scenario {
	s := r.meta.Scenario
	out := v1alpha1.Scenario{
		Name: s.Name, Topology: s.Topology.String(), Disruption: InWords(s.Disrupt),
		Recorded: v1alpha1.Span{From: r.meta.From, To: r.meta.To}, Behaviours: s.Behaviours,
		Fault: s.Fault, Error: r.meta.Error,
	}
	if !r.recorded {
		out.Notes = append(out.Notes, "not recorded")
		return out
	}
	out.History = v1alpha1.HistoryDir + "/" + s.Name
	out.Notes = append(out.Notes, r.scene.Timeline.Notes...)
	if d := cmp.Or(r.doubt(), r.past(Behaviour{Traffic: s.Traffic})); d != "" {
		out.Notes = append(out.Notes, d)
	}
	if s, slow := r.slowest(); slow {
		out.Notes = append(out.Notes, fmt.Sprintf("an answer was slow before anything was disturbed, and whole: %s took %s (%s)", s.ID, (s.End-s.Start).Round(time.Millisecond), s.Stream))
	}
	if l := leftBehind(r.scene.Timeline); l != "" {
		out.Notes = append(out.Notes, l)
	}
	for _, t := range r.scene.Terminations {
		out.Terminations = append(out.Terminations, r.describeTermination(t))
	}
	out.FailedSteps, out.KilledForMemory = r.failedSteps(), r.killedForMemory()
	out.Connections = connections(r.scene.Timeline, out.Terminations)
	out.Streams = describeStreams(slices.Concat(r.scene.Timeline.Samples, r.scene.Unsent))
	if !r.scene.Plain {
		rec := assertions.Reconcile(r.scene.Timeline)
		out.Ledger = &v1alpha1.Ledger{
			Begun: rec.Begun, Done: rec.Done, Lost: len(rec.Lost), Duplicated: len(rec.Duplicated),
			Unmatched: len(rec.Unaccounted) + len(rec.Strange), Agrees: rec.Agrees(),
		}
	}
	out.Pressure = r.describePressure()
	return out
}

// String tells the topology in words.
func (t Topology) String() string {
	who, row := "pods of the app", t.row()
	if row.Role != system.App && !t.Behind {
		who = "instances of the " + row.Name
		if row.Before {
			who += ", before two of the app"
		}
	}
	s := fmt.Sprintf("%d %s; from D on ready and accepting for %s (the minimum drain), then accepting for %s more; grace period %s", t.Replicas, who, t.MinDrain, t.Unready, t.Grace)
	say := func(when bool, format string, args ...any) {
		if when {
			s += "; " + fmt.Sprintf(format, args...)
		}
	}
	fails := ""
	if t.HookFails {
		fails = " that fails"
	}
	say(t.Alone != "", "with nothing in hand but %s", t.Alone)
	say(t.Form != "", "%s form", t.Form)
	say(t.Learns != "", "the sidecar learns of its app's end %s", t.Learns.InWords())
	say(t.PreStop, "the sidecar's end begins at its own preStop hook")
	say(t.Waits > 0, "its sidecar accepts for %s from the begin of its end, whatever the app does", t.Waits)
	say(t.AtZero, "its sidecar leaves when nothing passes through it, from its preStop hook on")
	say(t.Validity > 0, "the sidecar's certificates are good for %s", t.Validity)
	say(t.Late > 0, "the sidecar listens %s after its start, and the app sends out from its own start on", t.Late)
	say(t.Behind, "behind a %s, which stays", row.Name)
	say(t.Hook > 0, "a preStop hook of %s%s", t.Hook, fails)
	say(t.MinReady > 0, "minReadySeconds %d", int(t.MinReady.Seconds()))
	say(t.Unavailable > 0, "%d at a time may be unavailable", t.Unavailable)
	say(t.Liveness > 0, "a liveness probe each %s", t.Liveness)
	say(t.Budget > 0, "a PodDisruptionBudget of %d", t.Budget)
	say(t.Apart, "one on a node")
	return s
}

// InWords says what a disruption does.
func InWords(d disrupt.Disruption) string {
	act := d.Midway.Says()
	if act == "" {
		return d.String()
	}
	later := " at once"
	if d.After > 0 {
		later = " " + seconds(d.After) + " later"
	}
	if d.Targets > 1 && d.To(d.Targets-1).Midway == "" {
		later += " but for the last"
	}
	d.Midway, d.After = "", 0
	return d.String() + ", " + act + later
}

// seconds writes "2 s" where Go writes 2s.
func seconds(d time.Duration) string {
	if d%time.Second != 0 {
		return d.String()
	}
	return fmt.Sprintf("%d s", int(d.Seconds()))
}

func (r recording) describeTermination(t assertions.Ending) v1alpha1.Termination {
	at := func(i assertions.Instant) *v1alpha1.Instant {
		if !i.Known() {
			return nil
		}
		return &v1alpha1.Instant{At: v1alpha1.Duration(i.At), Err: v1alpha1.Duration(i.Err), Source: i.Source}
	}
	out := v1alpha1.Termination{
		Pod: t.Name, UID: t.UID, Node: t.Node, IP: t.IP,
		Deletion: at(t.Del), Drain: at(t.Drain), Endpoint: at(t.Endpoint), LastNew: at(t.LastNew), Exit: at(t.Exit), Net: at(t.Net),
		Kill: &v1alpha1.Instant{At: v1alpha1.Duration(t.Kill), Source: t.Del.Source + " + grace period"},
	}
	if t.ExitCode >= 0 {
		out.ExitCode = &t.ExitCode
	}
	alone := r.scene
	alone.Terminations = []assertions.Ending{t}
	for _, d := range r.propagation(alone) {
		took := v1alpha1.Duration(d)
		out.Propagation = &took
	}
	return out
}

// propagation is how long new connections went on reaching each instance that ended.
// Behind a gateway there is none to speak of: who gets a connection there is the
// gateway's choice, and not the service network's. And while a mesh has no controller there is nobody to
// tell of it.
func (r recording) propagation(c assertions.Case) []time.Duration {
	if r.meta.Scenario.Topology.Behind || r.meta.Scenario.Disrupt.Kind == disrupt.HandOver {
		return nil
	}
	return assertions.Propagation(c)
}

// What becomes of the steps that end an instance, as recordings name it: on a host each
// one is a marker, on a cluster the kubelet says that a hook failed.
const (
	markStep   = "step"
	hookFailed = "FailedPreStopHook"
)

// markLeft is a process, on a host, that the first process of an instance left behind.
const markLeft = "left"

// namedInstances is how many instances a note names.
const namedInstances = 3

// leftBehind is a warning that names the processes that were left behind, by their
// programs; "" where none was.
func leftBehind(tl *timeline.Timeline) string {
	of := map[string][]string{} // program -> instances
	for _, e := range tl.EventsOf(timeline.Marker, "") {
		if p := e.Attrs["process"]; e.Attrs["what"] == markLeft && !slices.Contains(of[p], e.Name) {
			of[p] = append(of[p], e.Name)
		}
	}
	if len(of) == 0 {
		return ""
	}
	var lines []string
	for _, p := range slices.Sorted(maps.Keys(of)) {
		who := of[p]
		if more := len(who) - namedInstances; more > 0 {
			who = append(who[:namedInstances], fmt.Sprintf("and %d more", more))
		}
		lines = append(lines, fmt.Sprintf("%s (%s)", p, strings.Join(who, ", ")))
	}
	return "WARNING: when the first process of an instance had ended, others that it had started still ran, in sessions of their own: " +
		strings.Join(lines, "; ") + ". They were killed, as in a container"
}

// failedSteps are the steps that end the instances and failed, in the order in which
// they were first seen to: each once, whomever it failed for.
func (r recording) failedSteps() []v1alpha1.FailedStep {
	ended := map[string]bool{}
	for _, t := range r.scene.Terminations {
		ended[t.UID] = true
	}
	var out []v1alpha1.FailedStep
	for _, e := range r.scene.Timeline.Events {
		step, why := "", ""
		switch {
		case !ended[e.Subject]:
		case e.Kind == timeline.Marker && e.Attrs["what"] == markStep:
			step, why = e.Attrs["step"], e.Attrs["error"]
		case e.Kind == timeline.ClusterEvent && e.Attrs["reason"] == hookFailed && !r.meta.Scenario.Topology.HookFails:
			step, why = "preStop hook", cmp.Or(e.Attrs["message"], e.Attrs["reason"])
		}
		if why == "" {
			continue
		}
		i := slices.IndexFunc(out, func(f v1alpha1.FailedStep) bool { return f.Step == step })
		if i < 0 {
			i = len(out)
			out = append(out, v1alpha1.FailedStep{Step: step, Error: why})
		}
		out[i].Times++
		if !slices.Contains(out[i].Instances, e.Name) {
			out[i].Instances = append(out[i].Instances, e.Name)
		}
	}
	return out
}

// describeStreams sums samples up by their flow: the direct streams to
// the single targets are one line.
func describeStreams(samples []timeline.Sample) []v1alpha1.Stream {
	byKey := map[string]*v1alpha1.Stream{}
	took := map[string][]time.Duration{}
	for _, s := range samples {
		key := s.Stream.Kind()
		st := byKey[key]
		if st == nil {
			st = &v1alpha1.Stream{Name: key, Outcomes: map[string]int{}}
			byKey[key] = st
		}
		st.Attempts++
		st.Outcomes[string(s.Outcome)]++
		if s.Saturated {
			st.Saturated++
		}
		if s.Unsent() {
			continue // nothing of it can have failed
		}
		if s.Failed() {
			st.Failed++
			continue
		}
		took[key] = append(took[key], s.End-s.Start)
	}
	out := make([]v1alpha1.Stream, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		st := byKey[key]
		if d := took[key]; len(d) > 0 {
			slices.Sort(d)
			st.P50, st.P99 = v1alpha1.Duration(d[len(d)/2]), v1alpha1.Duration(d[len(d)*99/100])
		}
		out = append(out, *st)
	}
	return out
}

// controls are the proofs that this recording's clients could see: the
// baseline of every scenario, and the kill of the control scenario.
func (r recording) controls() []v1alpha1.Control {
	if !r.recorded || r.scene.Steady == 0 || r.scene.Disturbed == 0 {
		return nil
	}
	n, of := baseline(r.scene)
	base := v1alpha1.Control{Name: "baseline", Path: r.meta.Scenario.Name, Attempts: of, Failed: n, Verdict: spec.Pass}
	switch {
	case n > 0:
		base.Verdict, base.Reason = spec.Inconclusive, "requests failed before anything was disturbed"
	case of == 0:
		base.Verdict, base.Reason = spec.Inconclusive, "nothing was sent before the disruption"
	}
	out := []v1alpha1.Control{base}
	if !r.meta.Scenario.Control {
		return out
	}
	seen := assertions.Sighted(r.scene)
	killed := r.meta.Scenario.Topology.row().Name
	for _, of := range slices.SortedFunc(maps.Keys(seen), flow.Compare) {
		c := v1alpha1.Control{Name: "abrupt-kill", Path: string(of.Path), Client: of.String(), Failed: seen[of], Verdict: spec.Pass}
		switch in := assertions.StandIn(of); {
		case seen[of] > 0:
		case seen[in] > 0:
			c.Reason = fmt.Sprintf("nothing of it was in flight; %s of the same client saw it", in)
		default:
			c.Verdict, c.Reason = spec.Inconclusive, "this stream saw no failure within P of a SIGKILL of the "+killed
		}
		out = append(out, c)
	}
	return out
}

// noRoute counts the dials to addresses of pods that were gone which ended as
// "no route to host": from the pod's own node, and from another.
func noRoute(r recording) (same, other int) {
	gone := map[string]assertions.Ending{}
	for _, t := range r.scene.Terminations {
		if t.Exit.Known() {
			gone[t.UID] = t
		}
	}
	for _, s := range r.scene.Timeline.Samples {
		t, ok := gone[s.Stream.Target()]
		if !ok || s.Outcome != timeline.NoRoute || s.Start < t.Exit.At {
			continue
		}
		if slices.Contains(r.meta.Clients, t.Node) {
			same++
		} else {
			other++
		}
	}
	return same, other
}
