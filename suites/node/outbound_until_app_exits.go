// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/sidecar"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.outbound-until-app-exits",
	Title: "What an app sends out through its node's proxy is served from the drain's start until the app's end, and what it keeps open is left alone",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "A pod's deletion is not its app's end: through its node's proxy new and pooled outbound connections work from D until the app is gone, and none is told to go.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "An app that drains still works: it answers what it has in hand, flushes what it keeps in memory, and tells others that it goes. For that it dials databases, queues and other apps. A node's proxy gets no SIGTERM then, and hears of the deletion from discovery all the same, while the app has its whole drain before it. One that lets go of the pod at that breaks each of these calls inside of the app, where no client can repeat it.",
	Causes: "A proxy that takes the news that a pod terminates for its end, and closes its ports: the one for what the app dials with the others. Discovery that drops a terminating pod from the node's workloads. A drain that knows no direction.",
	Fix:    "End a workload when its runtime does (the CNI plugin's DEL), and not when the API has its deletion. Until then let the drain be for those who come in, if for anybody.",

	Topology:   behaviour.CallingOnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    sidecar.Calls,
	Checks:     []assertions.Check{sidecar.CallsThroughProxy(sidecar.CallsServed()), sidecar.CallsThroughProxy(sidecar.CallsNotDrained())},
	BrokenBy:   []spec.Fault{nodeproxy.OutboundEndsOnceDeleted, nodeproxy.CutsOnceDeleted},
	Resolution: 60 * time.Millisecond,
})
