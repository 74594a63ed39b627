// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// linkerd2 issue 10379: "These processes must continue to process connections, as
// peers may not observe the pod's removal from a service immediately."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:     "controller.serves-after-sigterm",
	Title:  "A control plane's webhook, discovery and CA take new connections after SIGTERM until the service network has moved on",
	Level:  spec.Must,
	Labels: []string{"core"},
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "These processes must continue to process connections, as peers may not observe the pod's removal from a service immediately.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.TLS},

	Why:    "The API server dials a webhook through its Service, as anybody does. For as long as the node that it runs on still sends it to a replica that is going, a closed listener is a pod that can't be created, or a proxy that starts without a certificate and knows nobody.",
	Causes: "A webhook server that ends with the process's context: controller-runtime's closes its listener as soon as its reconcilers are done, which is milliseconds after SIGTERM when they are idle. A gRPC server that is stopped in the handler of the signal: GracefulStop closes its listener at once. A CA that is the leader's affair, and ends when the lease is given back.",
	Fix:    "Keep the servers open for longer than the propagation takes (P, 3 s by default) after SIGTERM, apart from what the leader does. A preStop hook that sleeps for so long does it too.",

	Topology: behaviour.Controlling,
	Disrupt:  behaviour.DeleteBoth,
	// A control plane says nothing of its D: what the kubelet's word leaves open of it, up to a quarter of
	// P, is lost to the evidence.
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.New, Op: flow.Get}, Rate: 50},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.XDS, Conns: flow.New, Op: flow.Discover}, Rate: 30},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.XDS, Conns: flow.New, Op: flow.Certify}, Rate: 20},
	},
	Checks:     []assertions.Check{webhookStays, discoveryStays},
	BrokenBy:   []spec.Fault{controller.WebhookClosesAtSigterm, controller.DiscoveryClosesAtSigterm, controller.CertifiesNoMore},
	Resolution: 40 * time.Millisecond,
})

// Its servers, each at a port of its own. Discovery and the CA are one.
var (
	webhookStays   = assertions.AcceptsAt("the webhook", flow.TLS1)
	discoveryStays = assertions.AcceptsAt("discovery and the CA", flow.XDS)
)
