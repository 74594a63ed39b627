// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// apiServer is the component whose absence the nodes and controllers feel.
const apiServer = "kube-apiserver"

// outageLeast is how long the API server must have been away, and how long
// the target must have had to drain meanwhile, for anything to be shown.
const outageLeast = time.Second

// outage is when the control plane was taken away, as far as anybody saw.
type outage struct {
	// asked is when it was killed, down and still when it was seen away first
	// and last, and back when it was first seen there again.
	asked, down, still, back time.Duration
}

// controlPlaneOutage finds the outage in a recording; ok is false where there
// is none to judge by.
func (g *gather) controlPlaneOutage(c Case) (o outage, ok bool) {
	for _, e := range c.Timeline.EventsOf(timeline.Outage, apiServer) {
		switch {
		case e.At < c.Disturbed:
		case e.Attrs["up"] == "false" && o.down == 0:
			o.down = e.At
		case e.Attrs["up"] == "true" && o.down != 0 && o.back == 0:
			o.still, o.back = max(o.down, e.At-e.Err), e.At
		}
	}
	if o.down == 0 {
		g.doubt("nobody saw the API server go away")
		return o, false
	}
	o.asked = o.down
	for _, e := range disruptions(c.Timeline, "control-plane-outage") {
		o.asked = min(o.asked, e.At)
	}
	if o.back == 0 {
		g.doubt("nobody saw the API server come back")
		o.back = max(c.Tail, o.down)
		o.still = o.back
	} else if o.still-o.down < outageLeast {
		g.doubt("the API server was seen away for %s only", ms(o.still-o.down))
	}
	return o, true
}

// DrainsThroughOutage judges that a drain goes on as it would have when the
// control plane is away. accepts is how long after D the target goes on
// accepting, by its own settings: it neither serves nor lives for less.
func DrainsThroughOutage(accepts time.Duration) Check {
	awayFloor := Floor{Name: "outages of the API server seen", N: 1, Reason: "one outage, and everything that happens in it"}
	newConns := Floor{Per: "termination", Name: "new connections dialled at the pod while the API server was away", N: 50}
	keptConns := Floor{Per: "termination", Name: "requests on kept connections to the pod", N: 0,
		Reason: "a conformant server says Connection: close from D on, so kept connections can't be had 200 times after it; those that are opened for it are judged",
	}
	inFlight := Floor{Per: "termination", Name: "requests in flight at the pod when the API server went", N: 5, Reason: atOneInstant}
	newToService := Floor{Name: "new connections offered to the Service from the outage on", N: 200}
	reusedToService := Floor{Name: "requests on reused connections offered to the Service from the outage on", N: 200}
	return Check{
		Name:     "the drain, and the Service, while the API server is away",
		Expected: fmt.Sprintf("until D + %s the terminating pod goes on serving; what is in flight ends whole; the process leaves by itself between then and K, with exit code 0 or SIGTERM's own 143; and no request through the Service fails", accepts),
		Likely:   earlyEnd,
		Floors:   []Floor{awayFloor, newConns, keptConns, inFlight, newToService, reusedToService},
		Judge: func(c Case) spec.Finding {
			var g gather
			ended := g.toll(c.terminated())
			ended.need()
			o, ok := g.controlPlaneOutage(c)
			if !ok {
				g.count(awayFloor, 0)
				return g.conclude("", "")
			}
			g.count(awayFloor, 1)
			end, direct := o.back, 0
			for t := range ended.each() {
				g.span(t.Drain.At, o.back)
				end = max(end, t.exitOr(o.back))
				direct += g.drainInOutage(c, t, o, accepts, newConns, inFlight)
			}
			end += c.P
			g.span(o.asked, end)
			if c.Tail < end {
				g.doubt("the load ended %s before P had passed after the outage and the last exit", ms(end-c.Tail))
			}
			sent := 0
			for _, s := range c.Timeline.Samples {
				if !throughService(s) || s.End < o.asked || s.Start > end {
					continue
				}
				sent++
				if s.Failed() {
					g.lost(c, s, "", "outage %+.1fs, through the Service: %s", (s.Start - o.down).Seconds(), describe(s))
				}
			}
			fresh, reused := offered(c.Timeline, o.down, end)
			g.count(newToService, fresh)
			g.count(reusedToService, reused)
			return g.conclude(
				fmt.Sprintf("the API server was away for %s; %s at the terminating pod and %d through the Service were served as if it had not been", ms(o.back-o.down), plural(direct, "request", "requests"), sent),
				fmt.Sprintf("%s of the drain while the API server was away for %s", plural(g.failures(), "thing went wrong", "things went wrong"), ms(o.back-o.down)))
		},
	}
}

// drainInOutage judges one instance that was on its way out when the API
// server went away, and counts the requests that it was sent from then on.
func (g *gather) drainInOutage(c Case, t Ending, o outage, accepts time.Duration, newConns, inFlight Floor) int {
	own := t.Drain.At + accepts
	if t.Drain.Err > c.P/4 {
		g.doubt("D of %s is known only to ±%s (%s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
	}
	switch {
	case !t.Endpoint.Known():
		g.doubt("no EndpointSlice said that %s terminates", t.Name)
	case o.asked < t.Endpoint.At+c.P:
		g.doubt("the outage began %s after the EndpointSlice said that %s terminates: a node may not have heard of it", ms(o.asked-t.Endpoint.At), t.Name)
	case o.down > own-listenerWindow-outageLeast:
		g.doubt("%s was to serve until D + %s only, and the API server was not away for long enough before that", t.Name, accepts)
	}
	// The listener's own end is no instant to the millisecond.
	until := own - listenerWindow
	all, fresh, inflight := 0, 0, 0
	for _, s := range c.Timeline.Samples {
		// What breaks at the kill is judged, also before the outage was seen.
		if !directTo(s, t.UID) || s.End < o.asked || s.Start > until {
			continue
		}
		all++
		switch {
		case s.Failed():
			g.lost(c, s, t.Name, "outage %+.1fs, D %+.1fs: %s", (s.Start - o.down).Seconds(), (s.Start - t.Drain.At).Seconds(), describe(s))
		case s.Saturated:
		case slowOp(s) && s.Start < o.down && s.End >= o.down:
			inflight++
		case !slowOp(s) && s.New() && s.Start >= o.down && s.Start <= o.still:
			fresh++
		}
	}
	g.least(newConns, t.Name, fresh)
	g.least(inFlight, t.Name, inflight)

	switch x := t.Exit; {
	case !x.Known():
		g.doubt("nobody saw %s exit", t.Name)
	case x.At+x.Err < until-t.Drain.Err:
		g.culprit(x.At, t.Name, "", "left at D + %s, and by its own settings it serves until D + %s", ms(x.At-t.Drain.At), accepts)
	case x.At-x.Err > t.Kill:
		g.culprit(x.At, t.Name, "", "left %s after K, the end of its grace period", ms(x.At-t.Kill))
	case x.Err >= kubeletWatch && x.At > o.down:
		g.doubt("only the API server told of the end of %s, and it was away: nobody knows when that was", t.Name)
	}
	switch at := t.exitOr(o.down); {
	case t.ExitCode < 0:
		g.doubt("nobody saw how %s ended", t.Name)
	case t.ExitCode == killedCode:
		g.culprit(at, t.Name, "", "was killed at %s (exit code %d)", offset("D", at-t.Drain.At), t.ExitCode)
	case !byItself(c, t):
		g.culprit(at, t.Name, "", "left with exit code %d", t.ExitCode)
	}
	return all
}
