// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9112 section 9.5: "Implementations SHOULD constantly monitor open
// connections for a received closure signal and respond to it as appropriate,
// since prompt closure of both sides of a connection enables allocated system
// resources to be reclaimed." The time, and the MUST, are the project's.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.pool-evicts",
	Title: "A sidecar's pool holds no tunnel to a pod whose sidecar is gone",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "pools",
			Quote: "A second after a pod's sidecar has exited, no sidecar holds a tunnel to it. Until then GOAWAY and close_notify have come on each of them.",
		},
		{
			Doc: "RFC 9112", Section: "section 9.5", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.5",
			Quote: "Implementations SHOULD constantly monitor open connections for a received closure signal and respond to it as appropriate, since prompt closure of both sides of a connection enables allocated system resources to be reclaimed.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A sidecar keeps a tunnel to each pod that its app calls. One to a pod that has gone is told nothing more; the next connection to that pod's address, which may be another pod's by then, goes into it and is lost, or waits until a keepalive gives it up. Each roll-out leaves as many of them.",
	Causes: "A pool that looks at a tunnel only when it next uses it, and not at the GOAWAY and close_notify that came on it. Or the other side's sidecar exits and ends nothing before.",
	Fix:    "Read from each tunnel all the time, also where nothing is in it; on GOAWAY take it from the pool, and close it with its last stream.",

	Topology: behaviour.BesideTwo,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{EvictsTunnels()},
	BrokenBy:   []spec.Fault{datapath.KeepsDeadTunnels},
	Resolution: 60 * time.Millisecond,
})

// EvictsTunnels judges that the sidecar of those that dial instances keeps no tunnel to one whose own sidecar has
// exited: that may outlast its app, and its tunnels are of use until then.
func EvictsTunnels() assertions.Check {
	return assertions.Eviction{
		What: "tunnels to a pod", Holder: "the source's sidecar", After: "the exit of its sidecar", Clock: "the sidecar's exit", Within: time.Second,
		Gone: leaves,
		Stood: assertions.Floor{Per: "termination", Name: "tunnels to the pod at its D", N: 1,
			Reason: "one tunnel carries all connections to a pod",
		},
		Looks: assertions.Floor{Per: "termination", Name: "looks at the tunnels later than that after its sidecar's exit", N: 1,
			Reason: "one look tells of all that there are",
		},
	}.Check()
}

// leaves is when the sidecar beside an instance was gone: not known where nobody saw that.
func leaves(c assertions.Case, t assertions.Ending) assertions.Instant {
	var last assertions.Instant
	for _, e := range ofSidecar(c, besideApp(c, t)) {
		last = assertions.Instant{At: e.At, Err: e.Err, Source: e.Source}
	}
	return last
}
