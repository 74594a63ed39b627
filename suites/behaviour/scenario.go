// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Scenario is what is recorded once: the behaviours with the same topology,
// disruption and fault, under the union of their traffic.
type Scenario struct {
	// Name is derived: the disruption and a hash of what makes the scenario.
	Name     string             `json:"name"`
	Topology Topology           `json:"topology"`
	Disrupt  disrupt.Disruption `json:"disrupt"`
	Fault    spec.Fault         `json:"fault,omitempty"`
	// Control: it is the control of rule 8, an abrupt kill that every stream of the run must
	// see. (In the formats before FormatControl a kill was.)
	Control bool           `json:"control,omitempty"`
	Traffic []load.Profile `json:"traffic"`
	// Pressure is closed-loop load beside it; nil: there is none. (In format 0 the key
	// "pressure" was a rate, and is not read.)
	Pressure   *Pressure `json:"closedLoop,omitempty"`
	Behaviours []string  `json:"behaviours"`
	// Asks is what the app is asked for, where that is not made for this suite.
	Asks *system.Paths `json:"asks,omitempty"`
	// Fitted is the traffic of a behaviour, by its ID, where the stage carried
	// another than the catalogue's.
	Fitted map[string][]load.Profile `json:"fitted,omitempty"`
	// Part is which of several it is that a control was split into, from 1; 0: it is whole.
	Part int `json:"part,omitempty"`
	// Lowered is the share of their rates that the streams have, where the machine has
	// too few cores for all; 0: all.
	Lowered float64 `json:"lowered,omitempty"`
	// Beyond is how many times what the recordings may take together it takes at the least rates that show anything; 0: it
	// fits.
	Beyond float64 `json:"beyond,omitempty"`
	// Cost is about how much CPU its traffic takes on both sides, in cores.
	Cost float64 `json:"cost"`
	// Resolution is the finest of its behaviours'.
	Resolution time.Duration `json:"resolution"`
}

// recorded is a behaviour as the scenario has it: in a profile, and with the traffic
// that the stage carried.
func (s Scenario) recorded(b Behaviour, profile string) Behaviour {
	b = b.In(profile)
	if own, ok := s.Fitted[b.ID]; ok {
		b.Traffic = own
	}
	return b
}

// Needs says whether one of its behaviours needs a feature.
func (s Scenario) Needs(f spec.Feature) bool {
	return s.some(func(b Behaviour) bool { return slices.Contains(b.Needs, f) })
}

// Takes says whether a check of one of its behaviours takes a kind of evidence.
func (s Scenario) Takes(e assertions.Evidence) bool {
	return s.some(func(b Behaviour) bool {
		return slices.ContainsFunc(b.Checks, func(k assertions.Check) bool { return slices.Contains(k.Needs, e) })
	})
}

// some says whether one of its behaviours is such.
func (s Scenario) some(is func(Behaviour) bool) bool {
	return slices.ContainsFunc(s.Behaviours, func(id string) bool {
		b, _ := Find(id)
		return is(b)
	})
}

// TunnelsAlone says whether all that is sent to its pods themselves goes in tunnels: their nodes' wires tell of the begins and ends of
// these, and have little else to be looked at.
func (s Scenario) TunnelsAlone() bool {
	return !slices.ContainsFunc(s.Traffic, func(p load.Profile) bool { return p.Path.PerPod() && p.Protocol != flow.HBONE })
}

// calibrates says whether the scenario is the control of a run under a fault ("": none): one
// of another fault is a row of its matrix.
func (s Scenario) calibrates(fault spec.Fault) bool { return s.Control && s.Fault == fault }

// attemptTimeout bounds an attempt: longer than a starved machine delays an
// answer, far shorter than anybody would wait.
const attemptTimeout = 10 * time.Second

// Stream is one stream of the scenario's traffic, to a target ("": nobody chooses one) at an
// address. Its schedule is drawn by its name and the place where it runs.
func (s Scenario) Stream(p load.Profile, target, addr, place string) load.Stream {
	name := flow.To(p.Flow, target)
	h := fnv.New64a()
	// A hash never fails to be written to.
	_, _ = h.Write([]byte(place + name.String()))
	return load.Stream{
		Name: name, Profile: p, Addr: addr, Timeout: attemptTimeout, Pages: pages(s.Asks, p),
		// A third of the resolution (design, rule 3).
		Tolerance: s.Resolution / 3, Seed: h.Sum64(),
	}
}

// pages are what a flow asks an app for that has paths of its own.
func pages(of *system.Paths, p load.Profile) []load.Page {
	if of == nil || elsewhere(p.Op) {
		return nil
	}
	if asksToLast(p) {
		// Its template was tried when the file was read.
		path, _ := of.Lasting(p.Takes)
		return []load.Page{{Path: path, Status: http.StatusOK}}
	}
	var out []load.Page
	for _, g := range of.Get {
		out = append(out, load.Page{Path: g.Path, Status: g.Good()})
	}
	return out
}

// asksToLast says whether a flow's requests are those that take a while to be answered.
func asksToLast(p load.Profile) bool { return p.Op == flow.Slow || p.Op == flow.Ahead }

// Fold folds behaviours into scenarios, in the order in which they are best
// recorded. With isolate each behaviour is recorded apart.
func Fold(selected []Behaviour, fault spec.Fault, isolate bool) []Scenario {
	type key struct {
		t Topology
		d disrupt.Disruption
		c bool
		i string
	}
	byKey := map[key]*Scenario{}
	var order []key
	for _, b := range selected {
		k := key{t: b.Topology, d: b.Disrupt, c: b.Level == spec.Control}
		if isolate {
			k.i = b.ID
		}
		s := byKey[k]
		if s == nil {
			s = &Scenario{Topology: b.Topology, Disrupt: b.Disrupt, Fault: fault, Control: k.c}
			byKey[k] = s
			order = append(order, k)
		}
		s.join(b)
	}
	out := make([]Scenario, 0, len(order))
	for _, k := range order {
		s := *byKey[k]
		if s.Control {
			out = append(out, s.controls(selected)...)
			continue
		}
		out = append(out, s.finished())
	}
	inOrder(out)
	return out
}

// join takes a behaviour in, with its traffic.
func (s *Scenario) join(b Behaviour) {
	if len(s.Behaviours) == 0 || b.Resolution < s.Resolution {
		s.Resolution = b.Resolution
	}
	s.Behaviours = append(s.Behaviours, b.ID)
	s.Traffic = union(s.Traffic, b.Traffic)
	if b.fitted {
		s.fit(b)
	}
	if b.asks != nil {
		s.Asks = b.asks
	}
}

// fit notes the traffic of a behaviour that is not the catalogue's.
func (s *Scenario) fit(b Behaviour) {
	if s.Fitted == nil {
		s.Fitted = map[string][]load.Profile{}
	}
	s.Fitted[b.ID] = b.Traffic
}

// controls are the control for each role that the selected behaviours are about: it kills
// what they end, under the union of their traffic, because a blind stream makes its
// behaviours Inconclusive.
func (s Scenario) controls(selected []Behaviour) []Scenario {
	of := map[system.Role][]Behaviour{}
	for _, b := range selected {
		if b.Level != spec.Control {
			of[b.Topology.Role] = append(of[b.Topology.Role], b)
		}
	}
	if len(of) == 0 {
		of[s.Topology.Role] = nil
	}
	var out []Scenario
	for _, role := range slices.Sorted(maps.Keys(of)) {
		one := s
		one.Topology.Role = role
		one.Traffic = sightings(s.Traffic, of[role])
		for _, b := range of[role] {
			if b.asks != nil {
				one.Asks = b.asks
			}
		}
		out = append(out, one.finished())
	}
	return out
}

// finished fills in what follows from the rest.
func (s Scenario) finished() Scenario {
	slices.Sort(s.Behaviours)
	s.Cost = cost(s.Topology, s.Traffic, 0)
	s.Name = s.name()
	return s
}

// inOrder puts the control first, because the rest is worth nothing without
// it; then what runs side by side, the longest first, so that no long one is
// left alone at the end; then what can only run alone. Under a fault of the whole run
// the control has it too.
func inOrder(all []Scenario) {
	oneFault := !slices.ContainsFunc(all, func(s Scenario) bool { return s.Fault != all[0].Fault })
	place := func(s Scenario) int {
		switch {
		case s.Control && (s.Fault == "" || oneFault):
			return 0
		case s.Disrupt.NodeWide():
			return 2
		default:
			return 1
		}
	}
	slices.SortStableFunc(all, func(a, b Scenario) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(OnCluster.Estimate(b), OnCluster.Estimate(a)), cmp.Compare(a.Name, b.Name))
	})
}

// What a request costs on both sides, in cores at one request per second, and
// what a standing scenario costs besides. The agents' own accounts in reports
// add up to two thirds of it (0.36 cores for 350 requests/s on reused and 160 on
// new connections; 0.43 for 150, 330 and 108 slow ones); the rest is the
// kernel's, the kubelets' and kube-proxy's. With the agents' share alone the
// suite starved itself.
const (
	costNew    = 0.0015
	costReused = 0.0008
	costSlow   = 0.0016
	costIdle   = 0.06
	// costTunnel is for a new tunnel, in which both sides look at the other's certificate, and which each of them tells to go: node.proxy-ends
	// opens 68 a second, and took 0.6 cores more than the rest of it explains, on a cluster, and 0.25 on a host (2026-11-29).
	costTunnel = 0.005
	// costDrip is for 5,000 writes a second on average, each of which is a frame and a record of TLS.
	costDrip = 0.12
)

// cost is about how much CPU a scenario takes on both sides, in cores: what
// runs side by side is admitted by it.
func cost(t Topology, traffic []load.Profile, pressure float64) float64 {
	sum := costIdle + pressure*costReused
	for _, p := range traffic {
		rate := p.Rate
		switch {
		case p.Path.PerPod():
			rate *= float64(t.Replicas)
		case p.Path.PerNode():
			rate *= 2
		}
		switch {
		case p.Op == flow.Drip:
			sum += rate*costSlow + costDrip
		case p.Takes > 0:
			sum += rate * costSlow
		case p.Conns == flow.New && p.Protocol.Tunnels():
			sum += rate * costTunnel
		case p.Conns == flow.New && p.Op != flow.Lookup: // which is a datagram each way
			sum += rate * costNew
		default:
			sum += rate * costReused
		}
	}
	return math.Round(sum*100) / 100
}

// sightings is the traffic of a control that answers for behaviours.
func sightings(own []load.Profile, of []Behaviour) []load.Profile {
	for _, b := range of {
		own = union(own, sighting(b.Traffic))
	}
	return own
}

// sighting is traffic that surely shows a death, without starving anybody.
// What takes time has so much in flight that some of it is at the victim,
// whatever one of three a Service chose; short requests on kept connections,
// and very long ones, get a stand-in (assertions.StandIn).
func sighting(ps []load.Profile) []load.Profile {
	const (
		inflight = 12
		most     = 60 // requests per second: with more, what takes a tenth of a second is dear
	)
	var out []load.Profile
	for _, p := range ps {
		if !p.Sights() {
			continue
		}
		p.Rate = min(p.Rate, 30)
		if p.Path == flow.Direct {
			p.Rate = min(p.Rate, 5) // each target has its own, and every one dies, for a second at least
		}
		if longer, short := assertions.StandInOp(p.Op); short && p.Conns != flow.New {
			out = append(out, p)
			p.Op, p.Takes, p.Rate = longer, assertions.StandInTakes, 0
		}
		// What takes longer has the same eyes, and would keep everybody waiting.
		p.Takes = min(p.Takes, assertions.StandInTakes)
		if p.Takes > 0 {
			want := float64(inflight)
			if p.Path == flow.Direct {
				want = inflight / 3 // each target has its own
			}
			p.Rate = min(most, want/p.Takes.Seconds())
		}
		out = append(out, p)
	}
	return out
}

// union joins profiles: those that differ only in rate are one, at the larger.
func union(a, b []load.Profile) []load.Profile {
	out := slices.Clone(a)
	for _, p := range b {
		i := slices.IndexFunc(out, func(q load.Profile) bool { return q.Flow == p.Flow })
		if i < 0 {
			out = append(out, p)
			continue
		}
		out[i].Rate = max(out[i].Rate, p.Rate)
	}
	slices.SortFunc(out, func(x, y load.Profile) int { return flow.Compare(x.Flow, y.Flow) })
	return out
}

func (s Scenario) name() string {
	id := struct {
		T Topology
		D disrupt.Disruption
		F spec.Fault
		B []string
		P int `json:",omitempty"`
	}{s.Topology, s.Disrupt, s.Fault, s.Behaviours, s.Part}
	b, err := json.Marshal(id)
	if err != nil {
		// Plain data: it can't fail to marshal, and a name must be had.
		b = fmt.Append(nil, id)
	}
	sum := sha256.Sum256(b)
	return strings.ToLower(string(s.Disrupt.Kind)) + "-" + hex.EncodeToString(sum[:])[:6]
}

// Sized are behaviours as a profile has them.
func Sized(all []Behaviour, profile string) []Behaviour {
	out := make([]Behaviour, 0, len(all))
	for _, b := range all {
		out = append(out, b.In(profile))
	}
	return out
}

// Select picks behaviours by label and by ID; neither means all. Their area,
// the ID's first word, is a label too. An unknown
// ID or a label that nothing has is an error that names what there is.
func Select(all []Behaviour, labels, ids []string) ([]Behaviour, error) {
	var out []Behaviour
	used := map[string]bool{}
	for _, b := range all {
		take := len(labels) == 0 && len(ids) == 0
		for _, l := range labels {
			if area, _, _ := strings.Cut(b.ID, "."); l == area || slices.Contains(b.Labels, l) {
				take, used["label "+l] = true, true
			}
		}
		if slices.Contains(ids, b.ID) {
			take, used["behaviour "+b.ID] = true, true
		}
		if take {
			out = append(out, b)
		}
	}
	for _, l := range labels {
		if !used["label "+l] {
			return nil, fmt.Errorf("no behaviour has the label %q: `lastcall list` shows them", l)
		}
	}
	for _, id := range ids {
		if !used["behaviour "+id] {
			return nil, fmt.Errorf("no behaviour is called %q: `lastcall list` shows them", id)
		}
	}
	return out, nil
}
