// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Service API: "publishNotReadyAddresses indicates that any agent which deals
// with endpoints for this Service should disregard any indications of
// ready/not-ready."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.publish-not-ready",
	Title: "A Service with publishNotReadyAddresses keeps a terminating pod's address; a plain headless one drops it",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Service API", Section: "ServiceSpec.publishNotReadyAddresses", URL: "https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1/",
		Quote: "publishNotReadyAddresses indicates that any agent which deals with endpoints for this Service should disregard any indications of ready/not-ready.",
	}, {
		Doc: "EndpointSlice API", Section: "EndpointConditions.ready", URL: "https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/",
		Quote: "In general, an endpoint should be marked ready if it is serving and not terminating, though this can be overridden in some cases, such as when the associated Service has set the publishNotReadyAddresses flag.",
	}, {
		Doc: "Kubernetes DNS-Based Service Discovery", Section: "2.4.1", URL: "https://github.com/kubernetes/dns/blob/master/docs/specification.md",
		Quote: "There must be an `A` record for each _ready_ endpoint of the headless Service with IPv4 address `<endpoint-ip>` as shown below.",
	}},
	Profile: spec.ServiceNetwork,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1, spec.ClusterDNS},

	Why:    "Members of a cluster (databases, queues) find each other by Services with publishNotReadyAddresses, also while one of them leaves: it has to hand over what it holds. And a client of a plain headless name must not be sent to a pod that is on its way out.",
	Causes: "A controller that writes EndpointSlices and does not look at the Service's flag, a service network that leaves out whatever terminates, or a name server with a cache of its own for the cluster's names.",
	Fix:    "Derive ready = publishNotReadyAddresses or (serving and not terminating), and let the service network and the name server go by `ready`. Keep the name server's cache away from the cluster's own names.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Publishing, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.Headless, Protocol: flow.DNS, Conns: flow.New, Op: flow.Lookup}, Rate: 10},
		{Flow: flow.Flow{Path: flow.HeadlessPublishing, Protocol: flow.DNS, Conns: flow.New, Op: flow.Lookup}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
	},
	Checks:     []assertions.Check{assertions.StaysPublished(), assertions.ReachesPublished(), assertions.NamesPublished()},
	BrokenBy:   []spec.Fault{slicewriter.IgnorePublishing},
	Resolution: 60 * time.Millisecond,
})
