// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// replacement is that of a node's kube-proxy: asked for, and its successor
// ready (0: nobody saw it).
type replacement struct {
	node        string
	begun, done time.Duration
}

// replacements are those of kube-proxies, as fixtures/disrupt tells them.
func replacements(tl *timeline.Timeline) []replacement {
	var out []replacement
	for _, e := range tl.EventsOf(timeline.Disruption, "") {
		if e.Attrs["what"] != "restart-kube-proxy" || e.Attrs["error"] != "" {
			continue
		}
		if e.Attrs["done"] != "true" {
			out = append(out, replacement{node: e.Subject, begun: e.At})
			continue
		}
		i := slices.IndexFunc(out, func(r replacement) bool { return r.node == e.Subject && r.done == 0 })
		if i >= 0 {
			out[i].done = e.At
		}
	}
	return out
}

// SurvivesProxyRestart judges that a set of terminating endpoints goes on being
// used when each kube-proxy is replaced: what was in flight ends, and the new
// one knows which endpoints terminate and serve.
func SurvivesProxyRestart() Check {
	replacedFloor := Floor{Name: "kube-proxies replaced in mid drain", N: 1, Reason: "one act on each node"}
	inFlight := Floor{Per: "restart", Name: "requests that were in flight from before the restart until the successor was ready, and ended whole", N: 5,
		Reason: atOneInstant,
	}
	keptStream := Floor{Name: "requests offered to the Service on the stream of kept connections, since the first restart", N: 100,
		Reason: "a conformant server says Connection: close from D on, so what this stream offers after it is one request on each connection",
	}
	afterwards := Floor{Name: "new connections offered to the Service after the last successor was ready + P", N: 60,
		Reason: "the restart takes as long as it takes; a proxy that lost the terminating endpoints loses each connection",
	}
	turnedAway := Floor{Name: "new connections that were turned away after T(serving=false) + P, while the pods accepted", N: 30,
		Reason: "shows that the successor writes rules: the old one's stay in the kernel, and would serve forever",
	}
	return Check{
		Name:     "requests through the Service while all endpoints terminate and every kube-proxy is replaced",
		Expected: "requests that were begun before the restart end whole, and new connections are served by the terminating pods until the first of them stops serving",
		Floors:   []Floor{replacedFloor, inFlight, keptStream, afterwards, turnedAway},
		Judge: func(c Case) spec.Finding {
			var g gather
			w, ok := g.collapsed(c)
			if !ok {
				return g.conclude("", "")
			}
			g.span(w.from, w.until)
			rs := replacements(c.Timeline)
			first, last := g.inMidDrain(c, replacedFloor, w, rs)
			all, lost, kept, after, away := 0, 0, 0, 0, 0
			for _, s := range c.Timeline.Samples {
				if !throughService(s) {
					continue
				}
				fresh := onNewConns(s) && !slowOp(s)
				if fresh && s.Start >= w.unserving+c.P && s.Start < w.closed {
					if !s.Failed() {
						g.doubt("nothing shows that the new kube-proxy writes rules: pods that had said they don't serve were still reached")
					} else if !s.Saturated {
						away++
					}
				}
				if s.Start >= w.until || s.End < w.from {
					continue
				}
				all++
				if s.Failed() {
					lost++
					at := max(s.Start, w.from) // it may have been begun before
					g.failed(c, s, at, "", "%s: %s", beside(s.Start, first, last), describe(s))
				}
				switch {
				case s.Saturated || last == 0:
				case fresh && s.Start > last+c.P:
					after++
				case !onNewConns(s) && !slowOp(s) && s.Start >= first:
					kept++
				}
			}
			for _, r := range rs {
				n := 0
				for _, s := range c.Timeline.Samples {
					if throughService(s) && slowOp(s) && !s.Saturated && !s.Failed() && s.Start < r.begun && s.End > r.done {
						n++
					}
				}
				g.least(inFlight, r.node, n)
			}
			g.count(keptStream, kept)
			g.count(afterwards, after)
			g.count(turnedAway, away)
			return g.conclude(
				fmt.Sprintf("none of %d requests was lost while %s replaced", all, plural(len(rs), "kube-proxy was", "kube-proxies were")),
				fmt.Sprintf("%d of %s failed while terminating pods served", lost, plural(all, "request", "requests")))
		},
	}
}

// inMidDrain doubts restarts that don't show what they are for, and gives the
// first one's begin and the last successor's instant (0: there is none).
func (g *gather) inMidDrain(c Case, enough Floor, w collapse, rs []replacement) (first, last time.Duration) {
	seen := 0
	replaced := map[string]bool{}
	for _, r := range rs {
		switch {
		case r.done == 0:
			g.doubt("nobody saw the successor of %s's kube-proxy", r.node)
		case r.begun < w.known.at || r.done > w.until:
			g.doubt("the kube-proxy of %s was not replaced in the middle of the drain", r.node)
		default:
			seen++
			replaced[r.node] = true
		}
		if first == 0 {
			first = r.begun
		}
		last = max(last, r.done)
	}
	for _, n := range nodesOf(c.Terminations) {
		if !replaced[n] {
			g.doubt("the kube-proxy of %s was not seen to be replaced", n)
		}
	}
	g.count(enough, seen)
	return first, last
}

// beside tells an instant by the restarts.
func beside(at, first, last time.Duration) string {
	switch {
	case first == 0 || at < first:
		return "before the restart"
	case last == 0 || at < last:
		return fmt.Sprintf("restart + %s", ms(at-first))
	default:
		return fmt.Sprintf("successor ready + %s", ms(at-last))
	}
}
