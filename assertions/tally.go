// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"iter"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Tally is what a check counts on its way to a finding: culprits, evidence against floors, and
// doubts. A check that stands beside its behaviour, in the package of its area, judges by it;
// those in this package use the gather behind it. The zero value is one that saw nothing.
type Tally struct{ gather gather }

// Late adds a culprit, told of an instant, that is one for when something happened: where the
// machine was starved of CPU around then, it is a doubt instead. target is the name of the
// instance that it is about, and id the request's, "" where it is about none.
func (y *Tally) Late(c Case, at time.Duration, target, id, format string, args ...any) {
	y.gather.late(c, at, target, id, format, args...)
}

// LateOn is Late of what happens on one node and takes nobody elsewhere: another one that starved excuses nothing. That our own
// clients were late does, wherever they are.
func (y *Tally) LateOn(c Case, node string, at time.Duration, target, id, format string, args ...any) {
	y.gather.unless(y.gather.starvedOn(c, node, at, at), at, target, id, format, args...)
}

// Against adds a culprit that is one on any machine, told of an instant. target and id are as Late
// has them.
func (y *Tally) Against(at time.Duration, target, id, format string, args ...any) {
	y.gather.culprit(at, target, id, format, args...)
}

// Certain adds a culprit that no lack of CPU makes, as what was done twice, or was sent in plain text: it stands in a recording
// whose nodes starved, in which nothing else is proven. The arguments are as Against has them.
func (y *Tally) Certain(at time.Duration, target, id, format string, args ...any) {
	y.gather.certain(at, target, id, format, args...)
}

// Failed adds a request that failed, as is told of an instant: a culprit, and where its client
// only gave up, or found nobody behind the Service, one for when something happened (Late). target is the name of the instance that it
// is about, and format what is told before what became of the request.
func (y *Tally) Failed(c Case, s timeline.Sample, at time.Duration, target, format string, args ...any) {
	y.gather.lostAt(c, s, at, target, "%s: %s", fmt.Sprintf(format, args...), describe(s))
}

// Doubt adds why the recording may not show what is asked. Unless there are culprits it makes
// the finding Inconclusive.
func (y *Tally) Doubt(format string, args ...any) { y.gather.doubt(format, args...) }

// Least counts the evidence of one termination into a floor that each has to reach: the
// finding keeps the termination that has the least of it.
func (y *Tally) Least(f Floor, target string, n int) { y.gather.least(f, target, n) }

// Count counts evidence into a floor of the whole recording.
func (y *Tally) Count(f Floor, n int) { y.gather.count(f, n) }

// Span widens the window that the finding is about.
func (y *Tally) Span(from, to time.Duration) { y.gather.span(from, to) }

// SpanDrain is Span from D to the exit of a termination, or to D + P where nobody saw that.
func (y *Tally) SpanDrain(c Case, t Ending) { y.gather.shutBetween(c, t) }

// Terminations are those of a recording, in the order in which they began. That there were none
// is a doubt.
func (y *Tally) Terminations(c Case) iter.Seq[Ending] { return y.gather.toll(c.terminated()).each() }

// AskedAfter judges the connections of an instance that it told in one way (timeline.ConnTold,
// by) that they end: a request that came on one when its sender could have known for longer
// than Crossing is a doubt, unless that happens often, and one after NoCrossing is a culprit, as is any that came behind an
// answer that had said "close". called is in words what was there to be read: "its FIN". It
// counts the connections, and the requests that crossed.
func (y *Tally) AskedAfter(c Case, t Ending, by, called string) (connections, crossed int) {
	all := toldBy(c, t, by)
	often := often(all)
	for _, k := range all {
		crossed += y.gather.askedAfter(c, t, k, k.At, called, often)
	}
	return len(all), crossed
}

// SeenWire doubts where the nodes' wire was not seen whole (timeline.Wire).
func (y *Tally) SeenWire(c Case) {
	for _, e := range c.Timeline.EventsOf(timeline.WatchGap, "wire") {
		y.Doubt("the wire was not seen whole: %s", e.Attrs["why"])
	}
}

// Culprits are how many there are by now, those that the finding won't list too.
func (y *Tally) Culprits() int { return y.gather.failures() }

// Conclude comes to the verdict: Fail with a culprit, however little the evidence; Inconclusive
// with a doubt, or with less than a floor asks for; Pass otherwise. passed says what was seen
// when nothing broke the rule, and broken what it means that something did.
func (y *Tally) Conclude(passed, broken string) spec.Finding {
	return y.gather.conclude(passed, broken)
}

// ConnectionsPerTermination is the floor of a check on what is said on connections of one kind,
// named by what they are.
func ConnectionsPerTermination(what string) Floor { return perTermination(what, fewConnections) }

// Clock says when something was on the clock of a termination: "D + 1.2s", "exit + 40ms".
func (t Ending) Clock(at time.Duration) string { return relative(at, t) }
