// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Fit is a behaviour with the times of a vendor's system, where that is ended, and
// without the traffic that it does not claim to take; or it says why the system
// can't be put to it. The reference's times are those of the behaviour.
func Fit(b Behaviour, sys *system.System) (Behaviour, Skip) {
	if skip := OfAnotherRole(b, sys); skip.Why != "" {
		return b, skip
	}
	if why := unfit(b, sys); why != "" {
		return b, Because(spec.Uncarried, why)
	}
	if !sys.Claims(spec.HTTP1) && slices.ContainsFunc(b.Traffic, func(p load.Profile) bool { return p.Path == flow.Balanced }) {
		return b, Because(spec.Unclaimed, fmt.Sprintf("its clients come by way of a load balancer that passes on to the port http1, and %s does not claim HTTP1", sys.Metadata.Name))
	}
	if why := assertions.Undecided(b.Checks, Subject{System: sys}.Shows); why != "" {
		return b, Because(spec.Uncarried, why)
	}
	return fit(b, sys), Skip{}
}

// carries says whether an app that has paths of its own can be asked for a flow. Without requests
// that last nobody could show that a client on kept connections would see a death.
func carries(app *system.Paths, p load.Profile) bool {
	if app == nil {
		return true
	}
	if asksToLast(p) {
		return app.Slow != ""
	}
	return (p.Op.Paged() || elsewhere(p.Op)) && (p.Conns == flow.New || app.Slow != "")
}

// elsewhere says whether an operation asks for none of an app's paths: a health check port is kube-proxy's to answer,
// and what discovery and a CA are asked is their protocols'.
func elsewhere(o flow.Op) bool { return o == flow.Check || o == flow.Discover || o == flow.Certify }

// unfit says why a vendor's system can't be put to a behaviour.
func unfit(b Behaviour, sys *system.System) string {
	t := b.Topology
	switch first := sys.Terminate[0]; {
	case sys.Cluster != nil && t.Form == system.Native && sys.Cluster.Form == system.Plain && b.Disrupt.Kind != disrupt.Jobs:
		// What a Job does is asked of each form.
		return fmt.Sprintf("it is about native sidecars, and %s is a plain one by its cluster.form: write a second file with form: native, if it has that one too", sys.Metadata.Name)
	case t.AtZero && sys.Patches():
		return "it has the sidecar leave at zero connections, as the suite's own takes it from it: run it without --system"
	case t.Late > 0 && sys.Patches():
		return "it has the sidecar listen late, as the suite's own takes it from it: run it without --system"
	case t.Late > 0 && sys.Cluster != nil && sys.Cluster.Form == system.Native:
		return fmt.Sprintf("it is about an app that starts before its sidecar listens, and that of %s is a native one by its cluster.form, which its app waits for: run it without --system", sys.Metadata.Name)
	case t.Deadline > t.Grace && t.Form == system.Plain && sys.Cluster != nil && sys.Cluster.Form == system.Native:
		return fmt.Sprintf("it is about a plain sidecar, which can't wait for an app that does not end, and that of %s is a native one by its cluster.form: it hears of its app's end, whatever that is: write a second file with form: plain, if it has that one too", sys.Metadata.Name)
	case (t.Deadline > t.Grace && !exhausts(sys, t) || t.Hook > 0) && !timed(sys, t):
		return "it sets the system's own times (of the preStop hook, the drain and the grace period), which only the suite's reference app takes from it: run it without --system"
	case b.Disrupt.Midway == disrupt.SigtermAgain && first.Signal == "":
		return fmt.Sprintf("it sends SIGTERM again while a drain goes on that SIGTERM began, and the drain of %s begins with another step (%s): write a second file whose terminate begins with a signal, as systems/haproxy-naive.yaml, to have that judged",
			sys.Metadata.Name, first)
	default:
		return ""
	}
}

// timed says whether a system's own times are those of a topology: the suite's app takes them from
// it, but for a hook, which is a manifest's.
func timed(sys *system.System, t Topology) bool { return sys.AppIsOurs() && t.Hook == 0 }

// longestGrace is the longest grace period of a vendor's that is waited out.
const longestGrace = 2 * time.Minute

// exhausts says whether a system does by its own times what a topology has the reference do: it never leaves before K while
// work is in flight.
func exhausts(sys *system.System, t Topology) bool {
	return t.Role == "" && t.Deadline > t.Grace && t.Hook == 0 && sys.Drain.Timeout == system.NoTimeout && sys.Drain.Grace.D() <= longestGrace
}

// OfAnotherRole says that a behaviour is about what a system is not.
func OfAnotherRole(b Behaviour, sys *system.System) Skip {
	r := b.Topology.Role
	if sys.Patches() && slices.Contains(b.Needs, spec.HBONE) {
		return Because(spec.OtherRole, fmt.Sprintf("it is about tunnels of the suite's own mesh, and %s is in none: run it without --system", sys.Metadata.Name))
	}
	too := b.AppsToo && slices.Contains(sys.Roles, system.App) || b.GatewaysToo && slices.Contains(sys.Roles, system.Gateway) ||
		b.NodesToo && slices.Contains(sys.Roles, system.NodeProxy)
	if r != "" && !slices.Contains(sys.Roles, r) && !too {
		row, _ := r.Row()
		does := "is one"
		if row.Before {
			does = "passes requests on to backends"
		}
		if row.Controls || slices.Contains(b.Needs, spec.HBONE) {
			return Because(spec.OtherRole, fmt.Sprintf("it is about the %s of the suite's own mesh, and %s is none: run it without --system", row.Name, sys.Metadata.Name))
		}
		return Because(spec.OtherRole, fmt.Sprintf("it is about a %s, and %s is none by its roles: if it %s, write roles: [%s]", row.Name, sys.Metadata.Name, does, r))
	}
	return Skip{}
}

// leads says whether a path leads to a system's instances as it says. Who is in a mesh has a Service's
// address resolved by its own data path, which knows of one traffic policy, Cluster.
func leads(sys *system.System, p flow.Path) bool {
	return !sys.Meshed() || p != flow.ServiceLocal
}

// heldLonger is by how much a connection that is held outlasts a vendor's drain:
// it may have been begun that long before D.
const heldLonger = 5 * time.Second

// overdue is for how long behind a vendor's timeout a connection is held, where its grace period is longer: who waits for it
// until SIGKILL is to be seen doing that, and none is held for an hour.
const overdue = 30 * time.Second

// reaching is by how much what is in hand at D outlasts a vendor's minimum: before that is over
// nothing ends it, and nothing would be shown.
const reaching = 2 * time.Second

// headerTakes is how long a header, or the wait for one, may take: vendors may leave their
// timeouts of these as they are.
const headerTakes = 8 * time.Second

// atMinimum are the new connections that are made within a vendor's minimum, which has to be seen held by 50, and
// mostAtMinimum how many a second at most: between two of them there is to be no connection for a while.
const (
	atMinimum     = 65
	mostAtMinimum = 100
)

// reach makes a request to an instance as long as it takes to outlast a vendor's minimum, or to end a
// second before the timeout, where that is behind the minimum; as many as before are in hand at an instant. Where
// something else is done midway, that is what the requests are to show.
func reach(p load.Profile, d system.Drain) load.Profile {
	takes := min(d.MinDrain.D()+reaching, d.Cut()-time.Second)
	if (p.Op == flow.HalfHeader || p.Op == flow.Belated) && takes > headerTakes {
		return p
	}
	if p.Path != flow.Direct || !p.Op.Soon() || p.Takes == 0 || takes <= p.Takes || takes <= d.MinDrain.D() {
		return p
	}
	p.Rate *= float64(p.Takes) / float64(takes)
	p.Takes = takes
	return p
}

// reachAgain makes a request that takes a while last for some seconds beyond the second SIGTERM, where the system promises that
// time: an instance that accepts no more from D on has it in hand then.
func reachAgain(p load.Profile, d system.Drain, after time.Duration) load.Profile {
	if p.Path == flow.Direct && p.Op.Soon() && p.Takes > 0 {
		p.Takes = max(p.Takes, min(after+again, d.Cut()-time.Second))
	}
	return p
}

// again is so long.
const again = 4 * time.Second

// ownTimes says whether what is ended has the times of its system's file. The reference has those of
// the behaviour, and so has the suite's app that a vendor's sidecar is put beside, or node proxy serves.
func ownTimes(sys *system.System) bool { return !sys.Reference() && !sys.AppIsOurs() }

func fit(b Behaviour, sys *system.System) Behaviour {
	var traffic []load.Profile
	var rates [][2]float64 // of traffic: of what is asked for in HTTP/2, and of the rest
	ends := !b.Topology.Behind
	own := ends && ownTimes(sys)
	for _, p := range b.Traffic {
		wanted := p.Protocol
		if p.Path != flow.HealthPort { // which is the node's
			p.Protocol = instead(sys, wanted, slices.Contains(b.Needs, spec.HTTP))
		}
		if p.Protocol == "" || !carries(sys.App, p) || !leads(sys, p.Path) {
			continue
		}
		if own {
			switch {
			case exhausts(sys, b.Topology):
				if p.Takes > b.Topology.Grace {
					p.Takes += sys.Drain.Grace.D() - b.Topology.Grace
				}
			case !b.Topology.Cut && b.Disrupt.Midway == "":
				p = reach(p, sys.Drain)
			case b.Disrupt.Midway == disrupt.SigtermAgain:
				p = reachAgain(p, sys.Drain, b.Disrupt.After)
			case b.Topology.Cut && p.Takes > b.Topology.Deadline:
				p.Takes += sys.Drain.Cut() - b.Topology.Deadline
			}
		}
		// A short minimum has to be seen held as often as a long one.
		if least := sys.Drain.MinDrain.D().Seconds(); own && b.Topology.Idle && least > 0 && p.Op == flow.Get && p.Path == flow.Direct {
			p.Rate = max(p.Rate, min(atMinimum/least, mostAtMinimum))
		}
		// Who holds a connection has to outlast the drain, or nobody sees what becomes
		// of it.
		if own && p.Op.Holds() {
			p.Takes = max(p.Takes, min(sys.Drain.Grace.D(), sys.Drain.Cut()+overdue)+heldLonger)
		}
		i := slices.IndexFunc(traffic, func(q load.Profile) bool { return q.Flow == p.Flow })
		if i < 0 {
			i = len(traffic)
			traffic, rates = append(traffic, p), append(rates, [2]float64{})
		}
		// What is asked for with TLS and without is asked once where they are one; and
		// as much in all in one version as it would be in two.
		of := &rates[i][1]
		if wanted.HTTP() == 2 {
			of = &rates[i][0]
		}
		*of = max(*of, p.Rate)
		traffic[i].Rate = rates[i][0] + rates[i][1]
	}
	b.asks = sys.App
	if !ends {
		return b.Carry(traffic)
	}
	t := &b.Topology
	if t.Role = sys.Stands().Role; t.Role == system.App {
		t.Role = ""
	}
	if t.Role != system.Sidecar || !sys.Meshed() {
		t.Form, t.Waits, t.Validity = "", 0, 0
	}
	if !own {
		*t = t.Together()
	} else {
		t.MinDrain, t.Unready = sys.Drain.MinDrain.D(), 0
		t.Deadline, t.Grace = sys.Drain.Cut(), sys.Drain.Grace.D()
	}
	*t = t.InForm(sys)
	if b.Disrupt.Targets > 0 {
		t.Replicas = max(sys.Instances, b.Disrupt.Targets)
	}
	return b.Carry(traffic)
}

// features are those that a flow of traffic is carried by, that of its port first.
func features(p load.Profile) []spec.Feature {
	out := p.Protocol.Features()
	if f := p.Op.Feature(); f != "" {
		out = append(out, f)
	}
	return out
}

// PortOf is the name of a system's port that a protocol is spoken at; "" for one
// that no system speaks.
func PortOf(p flow.Protocol) string {
	all := p.Features()
	if own := p.Port(); own != "" {
		return own
	}
	if len(all) == 0 {
		return ""
	}
	return system.Port(all[0])
}

// claims says whether a system takes what a protocol speaks.
func claims(sys *system.System, p flow.Protocol) bool {
	return !slices.ContainsFunc(p.Features(), func(f spec.Feature) bool { return !sys.Claims(f) })
}

// inPlace are the protocols that are spoken to a system in the place of one that it
// does not take, those of the same version first.
var inPlace = map[flow.Protocol][]flow.Protocol{
	flow.HTTP1: {flow.TLS1, flow.H2C, flow.H2},
	flow.H2C:   {flow.H2, flow.HTTP1, flow.TLS1},
}

// instead is the protocol that is spoken to a system in the place of another; "" for
// none. A version of HTTP is spoken in TLS where the system takes it in no other way; and where all HTTP
// is as good, any that it takes.
func instead(sys *system.System, p flow.Protocol, either bool) flow.Protocol {
	if claims(sys, p) {
		return p
	}
	for _, q := range inPlace[p] {
		if claims(sys, q) && (either || p.HTTP() == q.HTTP() && q.Secure()) {
			return q
		}
	}
	return ""
}
