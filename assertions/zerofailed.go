// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// ZeroFailed judges that nothing that was sent through the Service from the
// first D to the last exit + P failed. own are floors, by their names, that take the place
// of the check's.
func ZeroFailed(own ...Floor) Check {
	return zeroFailed(flow.Service, "through the Service", 30_000, own...)
}

// ZeroFailedAtLength is ZeroFailed over 300 s at 500 requests/s.
func ZeroFailedAtLength() Check { return zeroFailed(flow.Service, "through the Service", 120_000) }

// ZeroFailedOutside is the same for clients outside the cluster, who come by a
// node's port.
func ZeroFailedOutside() Check {
	return zeroFailed(flow.NodePort, "from outside, through a node's port,", 120_000)
}

// ZeroFailedUnmeshed is the same for clients outside of the mesh that the pods are in.
func ZeroFailedUnmeshed() Check {
	return zeroFailed(flow.Unmeshed, "from outside of the mesh", 6_000)
}

// newAround and reusedAround are what a Service is to be offered around each termination.
var (
	newAround    = Floor{Per: "termination", Name: "new connections offered from D to exit + P", N: 200}
	reusedAround = Floor{Per: "termination", Name: "requests on reused connections offered from D to exit + P", N: 200}
)

func zeroFailed(path flow.Path, way string, floorAttempts int, own ...Floor) Check {
	attempts := fmt.Sprintf("attempts %s in [first D, last exit + P]", way)
	attemptsFloor := Floor{Name: attempts, N: floorAttempts,
		Reason: fmt.Sprintf("so that a loss rate of 1 in %d would be seen with 95%% confidence", floorAttempts/3),
	}.OrOwn(own)
	newConns, reusedConns := newAround.OrOwn(own), reusedAround.OrOwn(own)
	return Check{
		Name:     fmt.Sprintf("requests %s in [first D, last exit + P]", way),
		Expected: "no request fails: every attempt is answered whole, whatever pod it reached",
		Likely:   earlyEnd,
		Floors:   []Floor{attemptsFloor, newConns, reusedConns},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			l := g.losses(c, path, newConns, reusedConns)
			g.count(attemptsFloor, l.attempts)
			return g.conclude(l.words(c))
		},
	}
}

// losses is what came of a path's requests around the terminations.
type losses struct {
	// attempts are those that the generator sent in time, of all sent.
	attempts, sent, lost int
	// hit counts the terminations around which something was lost.
	hit int
}

// losses judges that nothing that was sent on a path from the disruption on
// failed, until the last exit + P. Each termination needs so many new
// connections, and requests on reused ones, offered to the path: nobody can
// choose which pod serves them.
func (g *gather) losses(c Case, path flow.Path, newConns, reusedConns Floor) losses {
	var l losses
	ended := g.toll(c.terminated())
	ended.need()
	if len(ended.of) == 0 {
		return l
	}
	w := window(c)
	g.span(w.From, w.To)
	hit := map[string]bool{}
	for _, s := range c.Timeline.Samples {
		if s.Stream.Flow().Path != path || s.Start > w.To {
			continue
		}
		if w.Contains(s.Start) {
			l.sent++
			if !s.Saturated {
				l.attempts++
			}
		}
		// What breaks between the disruption's begin and the first D, or was
		// begun before it, is lost all the same.
		if !s.Failed() || s.End < c.Disturbed {
			continue
		}
		if g.noBackend(c, s, "node") {
			continue
		}
		l.lost++
		t := nearest(c.Terminations, s.Start)
		hit[t.UID] = true
		g.lost(c, s, t.Name, "%s of %s: %s", relative(s.Start, t), t.Name, describe(s))
	}
	if c.Tail < w.To {
		g.doubt("the load ended %s before the last exit + P", ms(w.To-c.Tail))
	}
	for t := range ended.each() {
		if !t.Exit.Known() {
			g.doubt("nobody saw %s exit", t.Name)
		}
		fresh, reused := offeredTo(c.Timeline, path, t.Drain.At, t.exitOr(t.Drain.At)+c.P)
		ended.has(newConns, fresh)
		ended.has(reusedConns, reused)
	}
	l.hit = len(hit)
	ended.bound(l.hit, max(l.attempts, l.lost), l.lost)
	return l
}

// words are what conclude wants to hear.
func (l losses) words(c Case) (passed, broken string) {
	sent, over := plural(l.sent, "request", "requests"), c.ends()
	return fmt.Sprintf("0 of %s failed over %s", sent, over), fmt.Sprintf("%d of %s failed, around %d of %s", l.lost, sent, l.hit, over)
}

// NothingTwice judges that the backends did each request that may not be
// repeated once, and that their ledger and the clients agree on every request ID.
func NothingTwice() Check {
	begunFloor := Floor{Name: "ledger entries begun", N: 30_000, Reason: "as many as the attempts that a pass stands on"}
	return Check{
		Name:     "the ledger against the clients",
		Expected: "by the backends' own ledger every request that a client saw answered was begun and ended whole, none that is not idempotent was done twice, and there is none that no client sent",
		Floors:   []Floor{begunFloor},
		Needs:    []Evidence{Ledger},
		Judge: func(c Case) spec.Finding {
			var g gather
			r := Reconcile(c.Timeline)
			for _, d := range r.Duplicated {
				g.span(d.At, d.At)
				g.certain(d.At, "", d.ID, "%s", d)
			}
			g.count(begunFloor, r.Begun)
			if n := len(r.Unaccounted); n > 0 {
				g.doubt("%s an entry in the ledger (the first: %s): its tail is missing", plural(n, "answered request lacks", "answered requests lack"), r.Unaccounted[0])
			}
			if n := len(r.Strange); n > 0 {
				g.doubt("the ledger holds %s that no client says it sent (the first: %s)", plural(n, "request", "requests"), r.Strange[0])
			}
			if len(c.Timeline.Samples) > 0 {
				g.span(c.Timeline.Samples[0].Start, c.Timeline.Samples[len(c.Timeline.Samples)-1].End)
			}
			passed := fmt.Sprintf("clients and backends agree on all %d answered requests", r.Answered)
			if r.Repeated > 0 {
				passed += fmt.Sprintf("; %s more than once, as an idempotent request may be", plural(r.Repeated, "was done", "were done"))
			}
			return g.conclude(passed,
				plural(len(r.Duplicated), "request that is not idempotent was", "requests that are not idempotent were")+" done more than once")
		},
	}
}

// window is [first D, last exit + P].
func window(c Case) spec.Window {
	w := spec.Window{From: c.Terminations[0].Drain.At - c.Terminations[0].Drain.Err}
	for _, t := range c.Terminations {
		w.To = max(w.To, t.exitOr(t.Kill)+c.P)
	}
	return w
}

// offered counts what was offered to the Service in a window.
func offered(tl *timeline.Timeline, from, to time.Duration) (fresh, reused int) {
	return offeredTo(tl, "service", from, to)
}

func offeredTo(tl *timeline.Timeline, path flow.Path, from, to time.Duration) (fresh, reused int) {
	for _, s := range tl.Samples {
		if s.Stream.Flow().Path != path || s.Saturated || s.Start < from || s.Start > to {
			continue
		}
		switch {
		case onNewConns(s):
			fresh++
		case s.Nth > 1:
			// What opened its connection reused none.
			reused++
		}
	}
	return fresh, reused
}

// nearest is the termination whose D is the last before at, or the first.
func nearest(ts []Ending, at time.Duration) Ending {
	out := ts[0]
	for _, t := range ts {
		if t.Drain.At <= at {
			out = t
		}
	}
	return out
}

func relative(at time.Duration, t Ending) string {
	if t.Exit.Known() && at >= t.Exit.At {
		return fmt.Sprintf("exit + %s", ms(at-t.Exit.At))
	}
	if at < t.Drain.At {
		return fmt.Sprintf("D - %s", ms(t.Drain.At-at))
	}
	return fmt.Sprintf("D + %s", ms(at-t.Drain.At))
}
