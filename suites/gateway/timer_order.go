// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Seed 4: "This should never occur with properly configured (staggered) timeouts".
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "gateway.timer-order",
	Title: "The timers of the end are staggered, in the manifest and in the run",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after envoyproxy/gateway pull request 2633",
		Quote: "probe period × threshold + P < min drain ≤ drain timeout < ready timeout < grace: read from the manifest, then seen in the run.",
	}, {
		Doc: "envoyproxy/gateway pull request 2633", URL: "https://github.com/envoyproxy/gateway/pull/2633",
		Quote: "terminationGracePeriodSeconds needs to be higher than the drain timeout so the pod has time to handle the SIGTERM before being sent a SIGKILL.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP},

	Why:    "Each timer covers for another one. A minimum shorter than what the probes and the service network need sends clients to a closed door; a drain timeout that the grace period does not have is never reached, because SIGKILL comes first and cuts without a word.",
	Causes: "Defaults of different components, put together; a timer that is raised and the next one is not; one that counts from another instant than its neighbours.",
	Fix:    "Stagger them: so long that the probes and P fit into the minimum, the drain timeout after it, the hook's own bound after that, and the grace period last, each with some seconds between. Who has no drain timeout says so in the system file (timeout: none), and is held to the minimum and the grace period alone.",

	Topology: behaviour.GatedShort,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 14 * time.Second}, Rate: 4}, // keeps it until its timeout
	},
	Checks:     []assertions.Check{assertions.TimersInOrder()},
	BrokenBy:   []spec.Fault{gateway.HurriesDrain, gateway.OutlastsGrace},
	Resolution: 60 * time.Millisecond,
})
