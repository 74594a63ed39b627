// SPDX-License-Identifier: Apache-2.0

// Package assertions holds the checks: pure functions of a frozen timeline.
package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// maxCulprits is how many culprits a finding lists; the rest is counted.
const maxCulprits = 8

// Case is what a check judges.
type Case struct {
	// Timeline is the frozen recording.
	Timeline *timeline.Timeline
	// P is the propagation window: how long the service network may take to
	// stop sending new connections to an endpoint that terminates.
	P time.Duration
	// MinDrain is how long after D an instance is to accept at least, where the
	// recording is of a system that has such a time; 0: nobody said.
	MinDrain time.Duration
	// Deadline is when, counted from D, an instance cuts what is left, where the
	// recording is of a system that has such a time; 0: nobody said.
	Deadline time.Duration
	// UntilKilled: Deadline is the grace period, because the system promises no earlier
	// one. What is left is SIGKILL's to cut, and that is held against nobody.
	UntilKilled bool
	// Endings are all ends of instances, in the order in which they began.
	Endings []Ending
	// Terminations are those of them that most rules speak of: of instances that were
	// deleted, or that their node's shutdown ended, in order of their D.
	Terminations []Ending
	// Proxies are the ends of node proxies (MarkProxies), which serve instances and are none.
	Proxies []Ending
	// Steady is when the steady gate opened; Disturbed when the first
	// disruption began. What lies between is the baseline. Tail is when the
	// pacing ended.
	Steady, Disturbed, Tail time.Duration
	// Unserved are the attempts of streams that the system claims to serve and never
	// did: see Claimed. They are not among the timeline's samples either.
	Unserved []timeline.Sample
	// Cancelled counts the attempts that the generator itself gave up, and Unsent are
	// those that it never began, because too much was in flight: never evidence, so
	// they are not among the timeline's samples.
	Cancelled int
	Unsent    []timeline.Sample
	// Wired: somebody watched what passes between pods of the mesh (MarkWire, timeline.Wire).
	Wired bool
	// Plain: who answers names nobody and keeps no ledger (MarkPlain). What a client saw is all
	// that there is. Lasts: it has requests that last, all the same.
	Plain, Lasts bool

	marks marks
}

// ProxyDeadline is when, counted from its SIGTERM, a node proxy cuts what is left: an instance's own, where nobody
// said another.
func (c Case) ProxyDeadline() time.Duration { return cmp.Or(c.marks.proxiesCut, c.Deadline) }

// RoleOf is the role of a pod or an instance, by its UID.
func (c Case) RoleOf(uid string) Role { return c.marks.role(uid) }

// shows says whether the recording has a kind of evidence.
func (c Case) shows(e Evidence) bool {
	if e == Minimum {
		return c.MinDrain > 0
	}
	return !c.Plain || e == Lasting && c.Lasts
}

// spoken is the case without the samples of other protocols; "": it is as it was.
func (c Case) spoken(only flow.Protocol) Case {
	if only == "" {
		return c
	}
	tl := *c.Timeline
	tl.Samples = nil
	for _, s := range c.Timeline.Samples {
		if s.Stream.Flow().Protocol == only {
			tl.Samples = append(tl.Samples, s)
		}
	}
	c.Timeline = &tl
	return c
}

// NewCase derives what checks need from a recording, and takes the timeline
// over.
func NewCase(tl *timeline.Timeline, p time.Duration) Case {
	c := Case{Timeline: tl, P: p, marks: marksOf(tl)}
	tl.Samples = slices.DeleteFunc(tl.Samples, func(s timeline.Sample) bool {
		switch {
		case s.Unsent():
			c.Unsent = append(c.Unsent, s)
		case s.Outcome == timeline.Cancelled:
			c.Cancelled++
		default:
			return false
		}
		return true
	})
	attribute(tl)
	for _, e := range endingsOf(tl, c.marks) {
		if e.Role == RoleProxies {
			c.Proxies = append(c.Proxies, e)
			continue
		}
		c.Endings = append(c.Endings, e)
		if e.terminates() {
			c.Terminations = append(c.Terminations, e)
		}
	}
	c.Wired = len(tl.EventsOf(timeline.Wire, "")) > 0
	for _, e := range tl.EventsOf(timeline.Marker, "") {
		switch e.Attrs["what"] {
		case MarkWire:
			c.Wired = true
		case MarkSteady:
			c.Steady = e.At
		case MarkTail:
			c.Tail = e.At
		case MarkPlain:
			c.Plain, c.Lasts = true, e.Attrs["lasts"] == "true"
		}
	}
	c.setAside()
	for _, e := range tl.EventsOf(timeline.Disruption, "") {
		if c.Disturbed == 0 || e.At < c.Disturbed {
			c.Disturbed = e.At
		}
	}
	return c
}

// The markers that the runner leaves in a recording.
const (
	MarkSteady = "steady" // the steady gate opened
	MarkTail   = "tail"   // the disruption is over and P has passed: pacing ends
	// MarkUnserved names a stream that was never served, when all others were clean:
	// the gate opens without it. Attrs: stream, why.
	MarkUnserved = "unserved"
	// MarkSubject names the container that the recording is about, where the pods
	// that are ended have several. Attrs: deployment, container; role, where what is ended is
	// neither a front nor an app; sidecar, the container of one that its vendor put beside it.
	MarkSubject = "subject"
	// MarkWire says that the nodes' wire is watched from now on, whether it has anything (timeline.Wire) or not.
	MarkWire = "wire"
	// MarkProxies names what makes the node proxies that serve the instances. Attrs: workload (Kind/name); container, the
	// proxy's own in its pods; timeout, after which, from its SIGTERM on, one of them cuts what is left (a Go duration).
	MarkProxies = "proxies"
)

// Floor is the evidence that a check must have before it may pass. It is one value: the
// check declares it, counts into it, and is Inconclusive where it never does.
type Floor struct {
	// Per says what has to reach it each: "termination", "path"; empty: all together.
	Per string `json:"per,omitempty"`
	// Name says what is counted and over which window.
	Name string `json:"name"`
	// N is the least number.
	N int `json:"n"`
	// Reason stands where the floor differs from the design's rule 1.
	Reason string `json:"reason,omitempty"`
}

// OnWire is a floor of what the nodes' wire had: nothing is asked for where nobody watches that (Case.Wired), and
// nobody can know.
func (f Floor) OnWire(c Case) Floor {
	if !c.Wired {
		f.N = 0
	}
	return f
}

// OffWire is a floor of what is looked at in the wire's place: nothing is asked for where that is watched.
func (f Floor) OffWire(c Case) Floor {
	if c.Wired {
		f.N = 0
	}
	return f
}

// String is the floor as it is declared to people: "per termination: new connections in
// [D, D+P]".
func (f Floor) String() string {
	if f.Per == "" {
		return f.Name
	}
	return "per " + f.Per + ": " + f.Name
}

// OrOwn is the floor with the number that a caller asks for in its place, if one of own has
// its name.
func (f Floor) OrOwn(own []Floor) Floor {
	for _, o := range own {
		if o.Name == f.Name {
			f.N = o.N
		}
	}
	return f
}

// Waived is the floor of a recording that can't have such evidence, where the rule stands
// without it: it is counted, and no verdict waits for it.
func (f Floor) Waived() Floor {
	f.N = 0
	return f
}

// Within is the floor for a window that the system leaves by itself shorter than the one that it is declared for.
func (f Floor) Within(left, whole time.Duration) Floor {
	if left < whole {
		f.N = int(int64(f.N) * int64(max(0, left)) / int64(whole))
	}
	return f
}

// Check is one question that is put to a recording.
type Check struct {
	Name string
	// Expected is what is accepted, in one sentence.
	Expected string
	Floors   []Floor
	// Needs is the evidence without which it can't be put to a recording.
	Needs []Evidence
	// Likely names what the recording shows that may have caused a failure, "" where it
	// shows nothing; nil: it could show nothing that is not the failure itself.
	Likely func(Case, spec.Finding) string
	// Judge answers. It fills what it saw; Name and Expected are set by Run.
	Judge func(Case) spec.Finding
}

// Run puts the check to a case.
func (k Check) Run(c Case) spec.Finding {
	var f spec.Finding
	if why := k.needs(c.shows); why != "" {
		f = leftOut(why)
	} else {
		f = k.Judge(c)
	}
	f.Check, f.Expected, f.Cause = k.Name, k.Expected, ""
	switch {
	case f.Verdict == spec.Pass:
		if never := k.uncounted(f); len(never) > 0 {
			f.Verdict, f.Actual = spec.Inconclusive, notEnough+strings.Join(never, "; ")
		}
	case f.Verdict == spec.Fail && k.Likely != nil:
		f.Cause = k.Likely(c, f)
	}
	return f
}

// uncounted says which of the floors that a check declares nothing was counted into.
func (k Check) uncounted(f spec.Finding) []string {
	var out []string
	for _, floor := range k.Floors {
		counted := slices.ContainsFunc(f.Evidence, func(c spec.Count) bool { return c.Name == floor.Name })
		if floor.N > 0 && !counted {
			out = append(out, fmt.Sprintf("%s: never counted, and at least %d needed", floor, floor.N))
		}
	}
	return out
}

// notEnough begins what is said of a verdict that evidence is missing for.
const notEnough = "not enough evidence: "

// gather collects a check's evidence and comes to its verdict: a violation
// that was seen is a Fail, with however little evidence; without one, what
// lacks evidence or is in doubt is Inconclusive; only the rest passes.
type gather struct {
	finding spec.Finding
	doubts  []string
	// excused counts what a starved machine excuses; excuse is the first.
	excused int
	excuse  string
	// schedule is the recording's, once it was asked for.
	schedule *schedule
	// lapses are too: see Case.lapses. nil: they were not.
	lapses []spec.Window
}

// culprit is one piece of evidence against the system. The first are kept, and one at least
// of each instance: they say where the rule was broken.
func (g *gather) culprit(at time.Duration, target, id, format string, args ...any) {
	kept := g.finding.Culprits
	one := spec.Culprit{At: at, Target: target, ID: id, Text: fmt.Sprintf(format, args...)}
	if len(kept) < maxCulprits {
		g.finding.Culprits = append(kept, one)
		return
	}
	g.finding.MoreCulprits++
	of := map[string]int{}
	for _, c := range kept {
		of[c.Target]++
	}
	if of[target] > 0 {
		return
	}
	for i := range slices.Backward(kept) {
		if of[kept[i].Target] > 1 {
			kept[i] = one
			return
		}
	}
}

// certain is a culprit that no lack of CPU makes, however long it lasts: what was done twice, what was sent in plain
// text. Every other one may be the work of who was late: a listener whose queue is full resets, and a kubelet kills
// what does not answer its probes.
func (g *gather) certain(at time.Duration, target, id, format string, args ...any) {
	g.finding.Certain = true
	g.culprit(at, target, id, format, args...)
}

// count is what there is of a floor's evidence.
func (g *gather) count(f Floor, n int) { g.countOf("", f, n) }

// countOf is count for one of several.
func (g *gather) countOf(of string, f Floor, n int) {
	g.finding.Evidence = append(g.finding.Evidence, spec.Count{Of: of, Name: f.Name, N: n, Floor: f.N})
}

// least counts one termination's evidence: the finding keeps the termination
// that has the least of it, because each has to reach the floor.
func (g *gather) least(f Floor, target string, n int) { g.leastOf("", f, target, n) }

// leastOf is least for one of several.
func (g *gather) leastOf(of string, f Floor, target string, n int) {
	all := g.finding.Evidence
	i := slices.IndexFunc(all, func(c spec.Count) bool { return c.Of == of && c.Name == f.Name && c.At != "" })
	switch {
	case i < 0:
		g.finding.Evidence = append(all, spec.Count{Of: of, Name: f.Name, At: target, N: n, Floor: f.N})
	case n < all[i].N:
		all[i].At, all[i].N = target, n
	}
}

func (g *gather) doubt(format string, args ...any) {
	if d := fmt.Sprintf(format, args...); !slices.Contains(g.doubts, d) {
		g.doubts = append(g.doubts, d)
	}
}

func (g *gather) span(from, to time.Duration) {
	w := &g.finding.Window
	if w.To == 0 && w.From == 0 {
		w.From, w.To = from, to
		return
	}
	w.From, w.To = min(w.From, from), max(w.To, to)
}

func (g *gather) failures() int { return len(g.finding.Culprits) + g.finding.MoreCulprits }

// conclude comes to the verdict; passed says what was seen when nothing broke
// the rule, and broken what it means that something did.
func (g *gather) conclude(passed, broken string) spec.Finding {
	f := g.finding
	switch {
	case g.excused == 1:
		g.doubt("%s", g.excuse)
	case g.excused > 1:
		g.doubt("%s (and %d more like it)", g.excuse, g.excused-1)
	}
	for _, c := range f.Evidence {
		if !c.Met() {
			are := "are"
			if c.Floor == 1 {
				are = "is"
			}
			g.doubt("%s: %d, and at least %d %s needed", c.What(), c.N, c.Floor, are)
		}
	}
	switch {
	case len(f.Culprits) > 0:
		f.Verdict, f.Actual = spec.Fail, broken
	case len(g.doubts) > 0:
		f.Verdict, f.Actual = spec.Inconclusive, notEnough+strings.Join(g.doubts, "; ")
	default:
		f.Verdict, f.Actual = spec.Pass, passed
	}
	return f
}

// phases say in words how far an attempt had come.
var phases = map[timeline.Phase]string{
	timeline.PhaseDial:      "while connecting",
	timeline.PhaseTLS:       "in the TLS handshake",
	timeline.PhaseWrite:     "while sending the request",
	timeline.PhaseFirstByte: "while waiting for the answer",
	timeline.PhaseBody:      "in the middle of the answer",
}

// describe says in words what became of an attempt.
func describe(s timeline.Sample) string {
	what := map[timeline.Outcome]string{
		timeline.Refused:       "connection refused",
		timeline.NoRoute:       "no route to host",
		timeline.Timeout:       "no answer in time",
		timeline.Reset:         "connection reset",
		timeline.Closed:        "connection closed",
		timeline.Truncated:     "body cut short",
		timeline.Corrupt:       "body differs from what was promised",
		timeline.Status:        "unexpected status",
		timeline.GoAway:        "stream not processed (GOAWAY)",
		timeline.RefusedStream: "stream refused (REFUSED_STREAM)",
		timeline.StreamReset:   "stream reset",
		timeline.BehindClose:   "not processed (behind Connection: close)",
		timeline.CloseFrame:    "WebSocket closed",
		timeline.Malformed:     "protocol broken",
		timeline.Cancelled:     "cut by the suite itself",
	}[s.Outcome]
	if what == "" {
		what = string(s.Outcome)
	}
	// A refusal is always the dial's, and a short body the body's.
	switch s.Outcome {
	case timeline.Refused, timeline.NoRoute, timeline.Truncated, timeline.Corrupt, timeline.Status:
	default:
		if where := phases[s.Phase]; where != "" {
			what += " " + where
		}
	}
	text := fmt.Sprintf("%s: %s, after %s", s.Stream.Kind(), what, (s.End - s.Start).Round(time.Millisecond))
	switch {
	case s.GRPC != "":
		text += ", grpc-status " + s.GRPC
	case s.Status != 0 && s.Outcome == timeline.Status:
		text += fmt.Sprintf(", status %d", s.Status)
	}
	switch {
	case isCall(s) && s.Want > 0:
		text += fmt.Sprintf(", %d of %d messages", s.Got, s.Want)
	case s.Outcome == timeline.Truncated:
		text += fmt.Sprintf(", %d of %d bytes", s.Got, s.Want)
	}
	return text + inBrief(s.Err)
}

// errRunes is how much of an error's text is told: what a peer sent may be in it.
const errRunes = 160

// inBrief is what a client said of its error, in one line, to stand behind what the suite
// says itself.
func inBrief(err string) string {
	err = strings.Join(strings.Fields(err), " ")
	if err == "" {
		return ""
	}
	if runes := []rune(err); len(runes) > errRunes {
		err = string(runes[:errRunes]) + "..."
	}
	return ": " + err
}
