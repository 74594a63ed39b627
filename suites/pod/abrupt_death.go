// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.abrupt-death",
	Title: "The suite sees a SIGKILL as a failure, with every kind of client and on every path",
	Level: spec.Control,
	Refs: []spec.Ref{{
		Doc:   "project",
		Quote: "an abrupt kill that must be seen as a failure by each kind of client on each path that the run uses: a blind one makes its behaviours Inconclusive",
	}},
	Profile: spec.App,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.Services},

	Why:    "A suite that can't see a death passes everything. Before any verdict is believed, a container is killed with SIGKILL and every stream of the run must report a failure.",
	Causes: "A client that retries behind your back, traffic that never reaches the victim, a kill that does not kill.",
	Fix:    "This is about the suite and its way to the system, not about the system: look at what stands between the client of the stream that is named and the pod, such as a proxy that retries.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.KillEach,
	// The runner adds the traffic of everything else that was selected.
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 8},
	},
	Checks:     []assertions.Check{assertions.SeesAbruptDeath()},
	BrokenBy:   []spec.Fault{disrupt.KillMisses, behaviour.DeafClients},
	Resolution: 20 * time.Millisecond,
})
