// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/text"
)

// paths are the words that streams are named by, of where they go, and conns those of how: the
// protocols stand between them, and the operations behind.
var (
	paths = []text.Meaning{
		{Word: string(flow.Direct), Means: "dialled at the pod's own address"},
		{Word: string(flow.Service), Means: "dialled at the Service's address"},
		{Word: string(flow.Unmeshed), Means: "dialled at the Service's address, from outside of the pods' mesh"},
		{Word: string(flow.ServiceLocal), Means: "dialled at a Service with internalTrafficPolicy Local"},
		{Word: string(flow.Sticky), Means: "dialled at a Service with ClientIP affinity"},
		{Word: string(flow.Publishing), Means: "dialled at a Service with publishNotReadyAddresses"},
		{Word: string(flow.NodePort), Means: "from outside the cluster, at a node port"},
		{Word: string(flow.NodePortLocal), Means: "from outside, at the pod's own node, to the node port of a Service with externalTrafficPolicy Local"},
		{Word: string(flow.HealthPort), Means: "from outside, at the health check port of the pod's own node"},
		{Word: string(flow.Balanced), Means: "from outside, through a load balancer that asks the nodes, or the gateways, for their health"},
		{Word: string(flow.Outbound), Means: "what each pod dials itself, at the address of a Service whose pods stay"},
		{Word: string(flow.PeerRefuses), Means: "what each pod dials itself, at a peer in the mesh that refuses CONNECTs as not processed"},
		{Word: string(flow.PeerLimits), Means: "the same, at one that takes few streams in a tunnel"},
		{Word: string(flow.PeerTurnsAway), Means: "the same, at one that takes no tunnels for a while"},
		{Word: string(flow.PeerSilent), Means: "the same, at one that says nothing more in the tunnels that it has"},
		{Word: string(flow.PeerCuts), Means: "the same, at one that cuts streams and tunnels in the middle"},
		{Word: string(flow.PeerMoves), Means: "the same, at one that tells its tunnels to go, and takes new ones"},
		{Word: string(flow.PeerNotifies), Means: "the same, at one that ends its tunnels by close_notify alone, and by a FIN much later"},
		{Word: string(flow.PeerHears), Means: "the same, at one that hears how streams end"},
		{Word: string(flow.Headless), Means: "a question to the cluster's DNS for a headless Service"},
		{Word: string(flow.HeadlessPublishing), Means: "the same for one with publishNotReadyAddresses"},
	}
	conns = []text.Meaning{
		{Word: string(flow.New), Means: "a connection of its own for each request"},
		{Word: string(flow.Reused), Means: "connections that are kept for many requests, one at a time"},
		{Word: string(flow.Shared), Means: "two connections that are kept, and each of which carries many requests at once"},
	}
)

// legend explains the words of ours that the text uses, and the names of its
// streams.
func legend(about string, traffic []load.Profile) string {
	var out strings.Builder
	out.WriteString(text.Legend(about))
	if len(traffic) == 0 {
		return out.String()
	}
	fmt.Fprintf(&out, "  A stream's name is path/protocol/connections/request, as in %s:\n", traffic[0].Flow)
	var named []string
	delayed := false
	for _, p := range traffic {
		named = append(named, string(p.Path), string(p.Protocol), string(p.Conns), string(p.Op))
		delayed = delayed || p.Delay > 0
	}
	all := slices.Clone(paths)
	for _, p := range flow.Protocols() {
		all = append(all, text.Meaning{Word: string(p), Means: p.Means()})
	}
	all = append(all, conns...)
	for _, op := range flow.Ops() {
		all = append(all, text.Meaning{Word: string(op), Means: op.Means()})
	}
	words := slices.DeleteFunc(all, func(m text.Meaning) bool { return !slices.Contains(named, m.Word) })
	if delayed {
		words = append(words, text.Meaning{Word: "delay=", Means: "so much is added to the way, in each direction"})
	}
	out.WriteString(text.Meanings(words))
	return out.String()
}
