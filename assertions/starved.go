// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// late is a culprit that is one for when something happened. A machine that is
// starved makes everything late, the kubelets', kube-proxy's and the
// controllers' work too: around such an instant it is a doubt.
func (g *gather) late(c Case, at time.Duration, target, id, format string, args ...any) {
	g.unless(g.starved(c, at, at), at, target, id, format, args...)
}

// unless is a culprit where nothing excuses it, and a doubt where something does.
func (g *gather) unless(excuse string, at time.Duration, target, id, format string, args ...any) {
	if excuse == "" {
		g.culprit(at, target, id, format, args...)
		return
	}
	if g.excused == 0 {
		g.excuse = fmt.Sprintf("%s: %s, but %s", target, fmt.Sprintf(format, args...), excuse)
	}
	g.excused++
}

// failed is a request that failed, as is told of an instant: a culprit, and a late one
// where the client only gave up, or the request was overdue.
func (g *gather) failed(c Case, s timeline.Sample, at time.Duration, target, format string, args ...any) {
	if s.Outcome == timeline.Timeout {
		g.late(c, s.Start, target, s.ID, format, args...)
		return
	}
	g.unless(g.overdue(c, s), at, target, s.ID, format, args...)
}

// overdue says why a request that failed may have met what ended it (the end of a listener, a
// deadline) only because the machine was starved while it was under way: on a healthy path it
// would have been over by then. "": it was not, or the machine was not. Who changes the bytes of
// an answer does so at any time.
func (g *gather) overdue(c Case, s timeline.Sample) string {
	if s.End-s.Start <= Patience(s) || s.First > 0 && garbled(s) {
		return ""
	}
	return g.starved(c, s.Start, s.End)
}

// lost is a request that failed. One that got no answer in time blames somebody
// for when, and so do one that was overdue and one through the Service that reached
// nobody when no pod was within P of its drain's begin, because the service network was
// late, or when no endpoint was ready and one had ceased to serve that was not on its
// way out, because all readiness probes were. Every other failure is one on any
// machine.
func (g *gather) lost(c Case, s timeline.Sample, target, format string, args ...any) {
	g.lostAt(c, s, s.Start, target, format, args...)
}

// lostAt is lost, as is told of an instant.
func (g *gather) lostAt(c Case, s timeline.Sample, at time.Duration, target, format string, args ...any) {
	if g.reachedNobody(c, s) {
		g.late(c, s.Start, target, s.ID, format, args...)
		return
	}
	g.failed(c, s, at, target, format, args...)
}

// reachedNobody says whether a request through the Service may have failed because there was nobody whom it could be sent to.
func (g *gather) reachedNobody(c Case, s timeline.Sample) bool {
	if !throughService(s) {
		return false
	}
	switch s.Outcome {
	case timeline.Refused, timeline.NoRoute:
		return !c.drainsBegin(s.Start) || g.nobodyServes(c, s)
	case timeline.Reset, timeline.Closed: // as a balancer says it, to who only reads, and to who still sends
		return s.Nth <= 1 && s.First == 0 && g.nobodyServes(c, s)
	}
	return false
}

// drainsBegin says whether an instant is within P of some pod's D.
func (c Case) drainsBegin(at time.Duration) bool {
	for _, t := range c.Terminations {
		if at >= t.Drain.At-t.Drain.Err && at <= t.Drain.At+t.Drain.Err+c.P {
			return true
		}
	}
	return false
}

// nobodyServes says whether nobody did at some time from P before a request's
// begin, which is how late the service network may be, to its end.
func (g *gather) nobodyServes(c Case, s timeline.Sample) bool {
	if g.lapses == nil {
		g.lapses = c.lapses()
	}
	return slices.ContainsFunc(g.lapses, func(w spec.Window) bool { return w.From <= s.End && w.To >= s.Start-c.P })
}

// lapses are the stretches in which no endpoint was ready, and one had ceased to
// serve that did not terminate. No stretch is an empty slice, not nil.
func (c Case) lapses() []spec.Window {
	type state struct{ serving, terminating bool }
	is := map[string]state{}
	out := []spec.Window{}
	none := false
	for _, e := range c.Timeline.Events {
		switch e.Kind {
		case timeline.Endpoint:
			if !ofService(e, MainService) {
				continue
			}
			is[e.Subject] = state{e.Attrs["serving"] == "true", e.Attrs["terminating"] == "true"}
		case timeline.EndpointGone:
			if !ofService(e, MainService) {
				continue
			}
			delete(is, e.Subject)
		default:
			continue
		}
		ready, lapsed := false, false
		for _, x := range is {
			ready = ready || x.serving && !x.terminating
			lapsed = lapsed || !x.serving && !x.terminating
		}
		was := none
		none = lapsed && !ready
		switch {
		case none && !was:
			out = append(out, spec.Window{From: e.At, To: math.MaxInt64})
		case was && !none:
			out[len(out)-1].To = e.At
		}
	}
	return out
}

// starved says how much of its schedule the generator missed around a stretch
// of time, if that is a tenth or more: then probes time out and controllers
// lag for want of CPU, on a machine that the suite itself loads, and nobody
// else can be blamed for it. A generator that stood still for more than a second
// leaves out what it should have sent meanwhile: what is missing between two
// requests of a stream, by their numbers, was missed too. The clients' node comes before the other ones where the CPU is
// short: of these their witnesses tell.
func (g *gather) starved(c Case, from, to time.Duration) string { return g.starvedOn(c, "", from, to) }

// starvedOn is starved where what is asked about is on one node; "": on whichever.
func (g *gather) starvedOn(c Case, node string, from, to time.Duration) string {
	if g.schedule == nil {
		g.schedule = scheduleOf(c.Timeline)
	}
	from, to = from-c.P, to+c.P
	if why := g.schedule.missed(from, to); why != "" {
		return why
	}
	told := g.schedule.nodes
	if node != "" {
		told = slices.DeleteFunc(slices.Clone(told), func(e timeline.Event) bool { return e.Node != node })
	}
	if node, late := StarvedNode(told, from, to); node != "" {
		return fmt.Sprintf("the node %s was starved of CPU: what was to run there came late in %s of the %s around then", node, ms(late), ms(to-from))
	}
	return ""
}

// longestGap is how far around a stretch its streams are looked for: what
// stood still for longer has no request on both sides of it.
const longestGap = 30 * time.Second

// schedule is a recording made ready to be asked many times what the generator
// missed: where a pod never comes back, thousands of requests are late.
type schedule struct {
	samples []timeline.Sample // in order of their begin
	// saturated[n] counts those of the first n samples.
	saturated []int
	streams   map[flow.Stream]*numbered
	// nodes are the stretches in which one was starved.
	nodes []timeline.Event
}

// numbered are the requests of a stream that have a number, in order of their
// begin.
type numbered struct {
	starts  []time.Duration
	numbers []int64
}

func scheduleOf(tl *timeline.Timeline) *schedule {
	samples := tl.Samples
	s := &schedule{samples: samples, saturated: make([]int, 1, len(samples)+1), streams: map[flow.Stream]*numbered{}, nodes: tl.EventsOf(timeline.NodeStarved, "")}
	for _, x := range samples {
		n := s.saturated[len(s.saturated)-1]
		if x.Saturated {
			n++
		}
		s.saturated = append(s.saturated, n)
		_, digits, _ := strings.Cut(x.ID, "-")
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			continue
		}
		of := s.streams[x.Stream]
		if of == nil {
			of = &numbered{}
			s.streams[x.Stream] = of
		}
		of.starts, of.numbers = append(of.starts, x.Start), append(of.numbers, number)
	}
	return s
}

// missed is what starved says of [from, to].
func (s *schedule) missed(from, to time.Duration) string {
	begin := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].Start >= from })
	end := sort.Search(len(s.samples), func(i int) bool { return s.samples[i].Start > to })
	missed, all := s.saturated[end]-s.saturated[begin], end-begin
	for _, n := range s.streams {
		out := n.leftOut(from, to)
		missed, all = missed+out, all+out
	}
	if missed == 0 || 10*missed < all {
		return ""
	}
	return fmt.Sprintf("the machine was starved of CPU: %d of %d requests around then were sent late", missed, all)
}

// StarvedShare is the part of a stretch of time, in which what is to run on a node has to come late for the node to be starved. A witness
// is late by 20 ms, which a pod that waits for its turn on a full machine is now and then: on two slow cores, where all passed, a tenth was late
// in a third of all stretches of 6 s, and this much in a few; in a roll-out that was more than they do, in nearly all (docs/adr/0009).
const StarvedShare = 0.3

// StarvedNode is the first node, by its name, that was starved in [from, to] by what witnesses told (timeline.NodeStarved), and for
// how long what was to run there came late; "" for none. What they do not tell of is taken for on time.
func StarvedNode(told []timeline.Event, from, to time.Duration) (node string, late time.Duration) {
	all := map[string]time.Duration{}
	for _, e := range told {
		n, err := strconv.Atoi(e.Attrs["late"])
		of, err2 := strconv.Atoi(e.Attrs["of"])
		if inside := min(to, e.At+e.Err) - max(from, e.At); inside > 0 && err == nil && err2 == nil && of > 0 {
			all[e.Node] += inside * time.Duration(n) / time.Duration(of)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(all)) {
		if all[node].Seconds() > StarvedShare*(to-from).Seconds() {
			return node, all[node]
		}
	}
	return "", 0
}

// leftOut is how many requests were never sent between the last one before
// [from, to] and the first one after it.
func (n *numbered) leftOut(from, to time.Duration) int {
	begin, _ := slices.BinarySearch(n.starts, from)
	end, _ := slices.BinarySearch(n.starts, to+1)
	if begin > 0 && n.starts[begin-1] >= from-longestGap {
		begin--
	}
	if end < len(n.starts) && n.starts[end] <= to+longestGap {
		end++
	}
	if begin == end {
		return 0
	}
	of := n.numbers[begin:end]
	// A late one may be begun after the next one.
	return int(max(0, slices.Max(of)-slices.Min(of)+1-int64(len(of))))
}
