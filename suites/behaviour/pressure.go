// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Pressure is closed-loop load beside a scenario's streams, in the shape of
// `hey -c 100 -q 10`. What it sees is told, and no verdict rests on it.
type Pressure struct {
	// Conns is how many connections there are, each with one request at a time.
	Conns int `json:"conns"`
	// QPS is requests per second, of all connections together.
	QPS float64 `json:"qps"`
	// Wanted is what the profile asks for, where this machine has too few cores for
	// it; 0: QPS.
	Wanted float64 `json:"wanted,omitempty"`
	// UntilUnserved: it ends when the first endpoint stops serving. What comes behind
	// that is looked at by streams whose schedule nothing delays.
	UntilUnserved bool `json:"untilUnserved,omitempty"`
}

// The shape of the pressure. 100 requests/s cost 0.08 of a core on both sides by
// costReused, which leaves the streams alone. hey's own 10 for each connection are what
// the full profile asks for.
const (
	pressureConns = 100
	pressureQPS   = 100
	fullCores     = 4 // with fewer, what is above pressureQPS is lowered in proportion
)

// Pressing says how a run presses.
type Pressing struct {
	// HTTP1: what is tested takes HTTP/1.1, which is all that fortio's fast client
	// speaks.
	HTTP1 bool
	// Cores is how many the machine has.
	Cores int
}

// on puts the pressure beside the scenarios of a plan that have some: those that
// delete pods or roll them out, and the restart of kube-proxy. A topology that must have
// times with no connection (Idle), or looks at nothing but what is cut (Cut), has none; nor has a controller, which has no answer
// for it: 100 requests a second were answered by a 404 each.
func (p Pressing) on(plan []Scenario, of []Behaviour) {
	for i := range plan {
		s := &plan[i]
		restarts := s.Disrupt.Midway == disrupt.RestartProxy
		if !p.HTTP1 || s.Topology.Idle || s.Topology.Cut || s.Topology.Role == system.Controller || !s.Disrupt.Pressed() && !restarts {
			continue
		}
		s.Pressure = &Pressure{Conns: pressureConns, QPS: pressureQPS, UntilUnserved: restarts}
		if most := wanted(*s, of); most > pressureQPS {
			s.Pressure.QPS = most
			if p.Cores < fullCores {
				s.Pressure.QPS = max(pressureQPS, most*float64(p.Cores)/fullCores)
				s.Pressure.Wanted = most
			}
		}
		s.Cost = cost(s.Topology, s.Traffic, s.Pressure.QPS)
	}
}

// wanted is the most that a behaviour of the scenario asks for.
func wanted(s Scenario, of []Behaviour) float64 {
	most := 0.0
	for _, id := range s.Behaviours {
		for _, b := range of {
			if b.ID == id {
				most = max(most, b.Pressure)
			}
		}
	}
	return most
}

// unpressed says why a recording that asked for pressure can't tell under what it was
// made; "" where it can, or did not ask.
func (r recording) unpressed() string {
	if r.meta.Format < FormatPressure || r.meta.Scenario.Pressure == nil {
		return ""
	}
	why := "the recording has no summary of it"
	for _, e := range r.scene.Timeline.EventsOf(timeline.Pressure, "") {
		text, lost := e.Attrs["error"]
		switch {
		case lost:
			why = text
		case e.Attrs["requests"] == "0":
			why = "it sent nothing but the first request of each connection"
		default:
			return ""
		}
	}
	return "nobody knows what the closed-loop load beside it did: " + why
}

// overPressurePath says whether a flow takes the path of the pressure, in the same
// protocol.
func overPressurePath(f flow.Flow) bool { return f.Path == flow.Service && f.Protocol == flow.HTTP1 }

// beside counts what the probe asked over the pressure's path while that went on, and
// what of it failed.
func (r recording) beside(from, to time.Duration) (failed, of int) {
	for _, s := range r.scene.Timeline.Samples {
		if s.End < from || s.Start > to || !overPressurePath(s.Stream.Flow()) {
			continue
		}
		of++
		if s.Failed() {
			failed++
		}
	}
	return failed, of
}

// lowered says that a machine has too few cores for what a profile asks for.
func (p Pressure) lowered() string {
	if p.Wanted == 0 {
		return ""
	}
	return fmt.Sprintf("the profile asks for %.0f requests/s, for which this machine has too few cores (it takes %d)", p.Wanted, fullCores)
}

// describePressure is the closed-loop load as the report tells it.
func (r recording) describePressure() []v1alpha1.Pressure {
	var out []v1alpha1.Pressure
	for _, e := range r.scene.Timeline.EventsOf(timeline.Pressure, "") {
		p := PressureOf(e)
		if asked := r.meta.Scenario.Pressure; asked != nil {
			p.Lowered = asked.lowered()
			p.Served = r.served(p)
		}
		p.Warning = r.pressureWarning(p, e.At)
		out = append(out, p)
	}
	return out
}

// PressureOf reads a summary, an event of kind timeline.Pressure. What it does not have
// stays zero: an old one has less.
func PressureOf(e timeline.Event) v1alpha1.Pressure {
	count := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0
		}
		return n
	}
	number := func(key string) float64 {
		f, err := strconv.ParseFloat(e.Attrs[key], 64)
		if err != nil {
			return 0
		}
		return f
	}
	millis := func(ms float64) v1alpha1.Duration { return v1alpha1.Duration(ms * float64(time.Millisecond)) }
	p := v1alpha1.Pressure{
		Name: e.Name, Error: e.Attrs["error"], Stopped: e.Attrs["stopped"],
		Conns: count(e.Attrs["conns"]), QPS: number("qps"), Took: v1alpha1.Duration(number("seconds") * float64(time.Second)),
		Requests: count(e.Attrs["requests"]), WarmUps: count(e.Attrs["warmups"]), OK: count(e.Attrs["ok"]), Errors: count(e.Attrs["errors"]),
		SocketErrors: count(e.Attrs["socketErrors"]), Sockets: count(e.Attrs["sockets"]),
		P50: millis(number("p50ms")), P90: millis(number("p90ms")), P99: millis(number("p99ms")), Max: millis(number("maxms")),
	}
	for key, text := range e.Attrs {
		if status, ok := strings.CutPrefix(key, "status."); ok {
			if p.Statuses == nil {
				p.Statuses = map[string]int{}
			}
			p.Statuses[status] = count(text)
		}
	}
	for _, word := range strings.Fields(e.Attrs["histogram"]) {
		upTo, n, _ := strings.Cut(word, ":")
		ms, err := strconv.ParseFloat(upTo, 64)
		if err != nil {
			continue
		}
		p.Histogram = append(p.Histogram, v1alpha1.Bucket{UpTo: millis(ms), Count: count(n)})
	}
	return p
}

// served holds what the backends say that they served of it against what its client
// says. nil: no backend said anything.
func (r recording) served(p v1alpha1.Pressure) *v1alpha1.PressureServed {
	type total struct {
		before, last int // of processes that ran in the pod before, and of this one
		final        bool
		cut          bool // one of those before was killed before it could tell its last number
	}
	by := map[string]*total{}
	for _, e := range r.scene.Timeline.EventsOf(timeline.PressureServed, "") {
		n, err := strconv.Atoi(e.Attrs["served"])
		if err != nil {
			continue
		}
		t := by[e.Subject]
		if t == nil {
			t = &total{}
			by[e.Subject] = t
		}
		if n < t.last || t.final { // a container that was restarted counts anew
			t.before += t.last
			t.cut = t.cut || !t.final
		}
		t.last, t.final = n, e.Attrs["final"] == "true"
	}
	if len(by) == 0 {
		return nil
	}
	ended := map[string]bool{}
	for _, t := range r.scene.Terminations {
		ended[t.UID] = t.Exit.Known()
	}
	out := &v1alpha1.PressureServed{}
	for uid, t := range by {
		out.Count += t.before + t.last
		if t.cut || ended[uid] && !t.final {
			out.AtLeast = append(out.AtLeast, uid)
		}
	}
	slices.Sort(out.AtLeast)
	out.Rest = out.Count - p.OK - p.WarmUps
	return out
}

// pressureWarning says that the pressure met errors where the probe lost nothing. It is no
// verdict: a closed loop is a worse witness, and it may be its own doing.
func (r recording) pressureWarning(p v1alpha1.Pressure, ended time.Duration) string {
	if p.Errors == 0 || r.meta.Scenario.Pressure == nil {
		return ""
	}
	failed, of := r.beside(ended-p.Took.D(), ended)
	if failed > 0 {
		return ""
	}
	if of == 0 {
		return fmt.Sprintf("%s met %d errors in %d requests, and the probe asked nothing over the same path: no verdict rests on that", p.Name, p.Errors, p.Requests)
	}
	return fmt.Sprintf("%s met %d errors in %d requests, where the probe lost 0 of %d over the same path: no verdict rests on that, and it is worth a look", p.Name, p.Errors, p.Requests, of)
}
