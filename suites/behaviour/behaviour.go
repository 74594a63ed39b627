// SPDX-License-Identifier: Apache-2.0

// Package behaviour holds the registry of behaviours, folds them into
// scenarios, records the scenarios and judges the recordings.
package behaviour

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Behaviour is one normative statement with what it takes to judge it.
type Behaviour struct {
	// ID is stable, semantic and never reused: "pod.accept-after-sigterm".
	ID string
	// Title says in one line what a conformant system does.
	Title string
	Level spec.Level
	// Refs are the normative basis, each with a quoted sentence.
	Refs    []spec.Ref
	Profile spec.Profile
	// Labels select behaviours, beside the area that the ID begins with: "core"
	// is the quick look.
	Labels []string
	Needs  []spec.Feature

	// Why says why it matters, Causes what usually breaks it, and Fix what
	// to do: for people who never opened this code.
	Why, Causes, Fix string

	// Topology, Disrupt and the run's fault make the scenario; Traffic joins
	// with that of the scenario's other behaviours.
	Topology Topology
	Traffic  []load.Profile
	// Pressure is how much closed-loop load it wants beside it, in requests per second,
	// where that is more than each such recording has (Pressing).
	Pressure float64
	Disrupt  disrupt.Disruption
	Checks   []assertions.Check
	// BrokenBy are faults that must make it fail.
	BrokenBy []spec.Fault
	// Full is what the full profile has instead; nil: the same.
	Full *Extent

	// Resolution is the finest time that its verdict rests on; the
	// generator may miss its schedule by a third of it.
	Resolution time.Duration

	// AppsToo: what it says of a gateway holds for an app that clients reach themselves.
	AppsToo bool
	// GatewaysToo: what it says of a sidecar's tunnels holds for a gateway that clients open tunnels
	// to, which is one that claims HBONE.
	GatewaysToo bool
	// NodesToo: what it says of a sidecar holds for a node's proxy, whatever of the mesh ends when.
	NodesToo bool

	// fitted: its traffic is not the catalogue's any more.
	fitted bool
	// asks is what the app is asked for, where that is not made for this suite.
	asks *system.Paths
}

// Carry is the behaviour with other traffic than the catalogue's.
func (b Behaviour) Carry(traffic []load.Profile) Behaviour {
	b.Traffic, b.fitted = traffic, true
	return b
}

// Extent is how far a behaviour goes in a larger profile.
type Extent struct {
	Topology Topology
	Traffic  []load.Profile
	Pressure float64
	Checks   []assertions.Check
}

// The profiles of a run, by size.
const (
	// CI is small enough to be run before every rollout.
	CI = "ci"
	// FullSize takes the time and the load that a release deserves.
	FullSize = "full"
)

// In is the behaviour as a profile has it.
func (b Behaviour) In(profile string) Behaviour {
	if profile == FullSize && b.Full != nil {
		b.Topology, b.Traffic, b.Pressure, b.Checks = b.Full.Topology, b.Full.Traffic, b.Full.Pressure, b.Full.Checks
	}
	return b
}

// Cost is about how much CPU its traffic takes on both sides, in cores.
func (b Behaviour) Cost() float64 { return cost(b.Topology, b.Traffic, 0) }

// Delays are the one-way delays of the paths that its traffic takes.
func (b Behaviour) Delays() []time.Duration {
	var out []time.Duration
	for _, p := range b.Traffic {
		if !slices.Contains(out, p.Delay) {
			out = append(out, p.Delay)
		}
	}
	slices.Sort(out)
	return out
}

// Topology is what a scenario deploys. It is comparable: equal topologies
// are one deployment.
type Topology struct {
	// Role is what is put up, and ended: empty is the app. What stands before backends
	// (system.RoleRow) stands before two of them.
	Role system.Role `json:"role,omitempty"`
	// Behind: what is ended, and what all else here is about, is the app that
	// stands behind the role, which stays. Each of its instances comes up again at
	// its old address: who stands before it knows it by that.
	Behind bool `json:"behind,omitempty"`
	// Replicas of it, spread over the nodes.
	Replicas int `json:"replicas"`
	// MinDrain is how long the app stays ready and accepting after D.
	MinDrain time.Duration `json:"minDrain"`
	// Unready is how long it goes on accepting after readiness was cut.
	Unready time.Duration `json:"unready"`
	// Deadline is when it cuts what is still in flight, counted from D.
	Deadline time.Duration `json:"deadline"`
	// Grace is terminationGracePeriodSeconds.
	Grace time.Duration `json:"grace"`
	// MinReady is minReadySeconds of the Deployment.
	MinReady time.Duration `json:"minReady,omitempty"`
	// Unavailable is the Deployment's maxUnavailable, with no surge; 0 is a
	// surge of one and none unavailable.
	Unavailable int `json:"unavailable,omitempty"`
	// Hook is how long the pods' preStop hook takes; 0: they have none.
	Hook time.Duration `json:"hook,omitempty"`
	// HookFails: the hook fails at its end.
	HookFails bool `json:"hookFails,omitempty"`
	// Liveness is the period of the liveness probe, with a threshold of 3; 0
	// is 5 s.
	Liveness time.Duration `json:"liveness,omitempty"`
	// Budget is minAvailable of the PodDisruptionBudget; 0: there is none.
	Budget int `json:"budget,omitempty"`
	// Apart: never two pods of a revision on one node.
	Apart bool `json:"apart,omitempty"`
	// Cut: there is traffic that lasts longer than Deadline, which keeps an
	// instance until then. Nothing else is looked at beside it.
	Cut bool `json:"cut,omitempty"`
	// Alone is what has the instances to itself: traffic of another kind, which an instance may wait for and not for
	// this, would keep it. It keeps apart what else would be recorded together.
	Alone string `json:"alone,omitempty"`
	// Form is how a sidecar stands in its pods; empty: native, or where there is none.
	Form system.Form `json:"form,omitempty"`
	// Learns is how the reference sidecar knows as a plain container that its app has ended.
	Learns system.Learns `json:"learns,omitempty"`
	// Waits is for how long the reference sidecar accepts from the begin of its end on, whatever its app
	// does; 0: for as long as its app does.
	Waits time.Duration `json:"waits,omitempty"`
	// PreStop: the reference sidecar's end begins at a preStop hook of its own, so that a native one hears of
	// its pod's end when its app does.
	PreStop bool `json:"preStop,omitempty"`
	// AtZero: the reference sidecar leaves when nothing passes through it, from its preStop hook on. Its
	// instances differ in what there is to pass: see Carries.
	AtZero bool `json:"atZero,omitempty"`
	// Leaves: some of its instances leave the mesh while they live. They differ in what passes then: see Carries.
	Leaves bool `json:"leaves,omitempty"`
	// Strangers: its clients are outside of the mesh, and dial its instances in plain text.
	Strangers bool `json:"strangers,omitempty"`
	// Validity is how long a certificate of the reference sidecar's is good for; 0: an hour.
	Validity time.Duration `json:"validity,omitempty"`
	// Late is how long after its start the reference sidecar begins to listen, beside an app that sends
	// out from its own start on; 0: as soon as it can, and the app once the load runs.
	Late time.Duration `json:"late,omitempty"`
	// Idle: there is nobody who stays, so that the system has times with no
	// connection. It keeps such a topology apart from one of equal times.
	Idle bool `json:"idle,omitempty"`
}

// Carries says whether an instance has a flow of the traffic, by its place in the order in which
// instances are ended, from 0: all of them have, but that AtZero leaves what the app sends out to the
// second one, and what comes in and lasts to the third; and where some leave the mesh (Leaves), nothing that
// lasts goes through the second one.
func (t Topology) Carries(nth int, p load.Profile) bool {
	switch {
	case t.Leaves:
		return p.Takes == 0 || nth != 1
	case !t.AtZero:
		return true
	case p.Path == flow.Outbound:
		return nth == 1
	default:
		return p.Takes == 0 || nth == 2
	}
}

// Evenly says whether all instances have a flow of the traffic: see Carries.
func (t Topology) Evenly(p load.Profile) bool { return t.Carries(0, p) }

// row is that of the role. One that this version does not know, in a recording of another,
// has its own word for a name.
func (t Topology) row() system.RoleRow {
	row, ok := t.Role.Row()
	if !ok {
		row = system.RoleRow{Role: t.Role, Name: string(t.Role)}
	}
	return row
}

// UntilKilled: the system promises no drain timeout, so that SIGKILL cuts what is left.
func (t Topology) UntilKilled() bool { return t.Grace > 0 && t.Deadline == t.Grace }

// registry is the one global of the suite (ADR 0001).
var registry []Behaviour

// Register adds a behaviour to the catalogue. It is called from variable
// declarations; what is wrong with a declaration, Validate says.
func Register(b Behaviour) Behaviour {
	registry = append(registry, b)
	return b
}

// Catalogue returns all registered behaviours, sorted by ID.
func Catalogue() []Behaviour {
	out := slices.Clone(registry)
	slices.SortStableFunc(out, func(a, b Behaviour) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Find returns the behaviour with an ID.
func Find(id string) (Behaviour, bool) {
	for _, b := range registry {
		if b.ID == id {
			return b, true
		}
	}
	return Behaviour{}, false
}

// Breaks are the IDs of the behaviours that say that a fault breaks them, sorted.
func Breaks(f spec.Fault) []string {
	var out []string
	for _, b := range Catalogue() {
		if slices.Contains(b.BrokenBy, f) {
			out = append(out, b.ID)
		}
	}
	return out
}

var idForm = regexp.MustCompile(`^[a-z0-9]+\.[a-z0-9]+(-[a-z0-9]+)*$`)

// Validate lists everything that is wrong with a catalogue, all at once.
func Validate(all []Behaviour) error {
	var bugs []error
	seen := map[string]bool{}
	for _, b := range all {
		bug := func(format string, args ...any) {
			bugs = append(bugs, fmt.Errorf("behaviour %q: "+format, append([]any{b.ID}, args...)...))
		}
		if !idForm.MatchString(b.ID) {
			bug("the ID is not of the form area.words-with-dashes")
		}
		if seen[b.ID] {
			bug("the ID is taken")
		}
		seen[b.ID] = true
		for name, text := range map[string]string{"Title": b.Title, "Why": b.Why, "Causes": b.Causes, "Fix": b.Fix} {
			if text == "" {
				bug("%s is empty", name)
			}
		}
		if want := spec.ProfileOf(b.ID); b.Profile != want {
			bug("the profile is %q, and its area belongs to %q", b.Profile, want)
		}
		if len(b.Refs) == 0 {
			bug("no reference: name the norm, or say \"project\"")
		}
		for _, r := range b.Refs {
			if r.Doc == "" || r.Quote == "" {
				bug("a reference without a document or without its quoted sentence")
			}
		}
		if b.Level == spec.Control && b.Disrupt.Kind != disrupt.Kill {
			bug("a control kills: that is what every stream has to see")
		}
		if len(b.Checks) == 0 {
			bug("no check")
		}
		for _, c := range b.Checks {
			if len(c.Floors) == 0 {
				bug("check %q has no evidence floor", c.Name)
			}
			named := map[string]bool{}
			for _, f := range c.Floors {
				if named[f.Name] {
					bug("check %q has two floors for %q: one would count for the other", c.Name, f.Name)
				}
				named[f.Name] = true
			}
		}
		if len(b.BrokenBy) == 0 {
			bug("no fault breaks it: if you can't break it, it is no test")
		}
		for _, f := range b.BrokenBy {
			if !fixtures.Has(Faults(), f) {
				bug("it is broken by %q, which no component has", f)
			}
		}
		if err := b.Disrupt.Validate(); err != nil {
			bug("%w", err)
		}
		if len(b.Traffic) == 0 {
			bug("no traffic")
		}
		if b.Resolution <= 0 {
			bug("the resolution must be above 0")
		}
		if b.Topology.Replicas < 1 || b.Topology.Grace <= 0 {
			bug("the topology needs replicas and a grace period")
		}
		if _, ok := b.Topology.Role.Row(); !ok {
			bug("there is no role %q", b.Topology.Role)
		}
	}
	slices.SortFunc(bugs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(bugs...)
}
