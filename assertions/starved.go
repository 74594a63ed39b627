// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// late is a culprit that is one for when something happened. A machine that is
// starved makes everything late, the kubelets', kube-proxy's and the
// controllers' work too: around such an instant it is a doubt.
func (g *gather) late(c Case, at time.Duration, target, id, format string, args ...any) {
	why := starved(c, at, at)
	if why == "" {
		g.culprit(at, target, id, format, args...)
		return
	}
	if g.excused == 0 {
		g.excuse = fmt.Sprintf("%s: %s, but %s", target, fmt.Sprintf(format, args...), why)
	}
	g.excused++
}

// lost is a request that failed. One that got no answer in time blames somebody
// for when, and so does a dial through the Service that reached nobody when no
// pod was within P of its drain's begin: the service network was late. Every
// other failure is one on any machine.
func (g *gather) lost(c Case, s timeline.Sample, target, format string, args ...any) {
	nobody := (s.Outcome == timeline.Refused || s.Outcome == timeline.NoRoute) && throughService(s) && !c.drainsBegin(s.Start)
	if s.Outcome == timeline.Timeout || nobody {
		g.late(c, s.Start, target, s.ID, format, args...)
		return
	}
	g.culprit(s.Start, target, s.ID, format, args...)
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

// starved says how much of its schedule the generator missed around a stretch
// of time, if that is a tenth or more: then probes time out and controllers
// lag for want of CPU, on a machine that the suite itself loads, and nobody
// else can be blamed for it. A generator that stood still for more than a second
// leaves out what it should have sent meanwhile: what is missing between two
// requests of a stream, by their numbers, was missed too.
func starved(c Case, from, to time.Duration) string {
	from, to = from-c.P, to+c.P
	missed, all := 0, 0
	streams := map[string]*numbered{}
	for _, s := range startedIn(c.Timeline.Samples, from-longestGap, to+longestGap) {
		n := streams[s.Stream]
		if n == nil {
			n = &numbered{}
			streams[s.Stream] = n
		}
		n.add(s, from, to)
		if s.Start < from || s.Start > to {
			continue
		}
		all++
		if s.Saturated {
			missed++
		}
	}
	for _, n := range streams {
		out := n.leftOut()
		missed, all = missed+out, all+out
	}
	if missed == 0 || 10*missed < all {
		return ""
	}
	return fmt.Sprintf("the machine was starved: %d of %d requests missed their schedule", missed, all)
}

// longestGap is how far around a stretch its streams are looked for: what
// stood still for longer has no request on both sides of it.
const longestGap = 30 * time.Second

// startedIn are those of the samples, which are in order, that began in
// [from, to].
func startedIn(samples []timeline.Sample, from, to time.Duration) []timeline.Sample {
	begin := sort.Search(len(samples), func(i int) bool { return samples[i].Start >= from })
	end := sort.Search(len(samples), func(i int) bool { return samples[i].Start > to })
	return samples[begin:max(begin, end)]
}

// numbered are the numbers of a stream's requests in a stretch of time, the last
// one before it and the first one after it.
type numbered struct {
	first, last int64
	count       int64
	over        bool
}

func (n *numbered) add(s timeline.Sample, from, to time.Duration) {
	_, digits, _ := strings.Cut(s.ID, "-")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n.over {
		return
	}
	if s.Start < from || n.count == 0 {
		n.first, n.last, n.count = number, number, 0
	}
	n.first, n.last = min(n.first, number), max(n.last, number)
	n.count++
	n.over = s.Start > to
}

// leftOut is how many requests of the stretch were never sent.
func (n *numbered) leftOut() int {
	if n.count == 0 {
		return 0
	}
	return int(max(0, n.last-n.first+1-n.count))
}
