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

// parts are the words that streams are named by, in the order of the names.
var parts = []text.Meaning{
	{Word: string(flow.Direct), Means: "dialled at the pod's own address"},
	{Word: string(flow.Service), Means: "dialled at the Service's address"},
	{Word: string(flow.ServiceLocal), Means: "dialled at a Service with internalTrafficPolicy Local"},
	{Word: string(flow.Sticky), Means: "dialled at a Service with ClientIP affinity"},
	{Word: string(flow.Publishing), Means: "dialled at a Service with publishNotReadyAddresses"},
	{Word: string(flow.NodePort), Means: "from outside the cluster, at a node port"},
	{Word: string(flow.NodePortLocal), Means: "from outside, at the pod's own node, to the node port of a Service with externalTrafficPolicy Local"},
	{Word: string(flow.HealthPort), Means: "from outside, at the health check port of the pod's own node"},
	{Word: string(flow.Balanced), Means: "from outside, through a load balancer that asks the nodes, or the gateways, for their health"},
	{Word: string(flow.Headless), Means: "a question to the cluster's DNS for a headless Service"},
	{Word: string(flow.HeadlessPublishing), Means: "the same for one with publishNotReadyAddresses"},
	{Word: string(flow.HTTP1), Means: "HTTP/1.1"},
	{Word: string(flow.H2C), Means: "HTTP/2 in plaintext"},
	{Word: string(flow.TLS1), Means: "HTTP/1.1 in TLS"},
	{Word: string(flow.H2), Means: "HTTP/2 in TLS"},
	{Word: string(flow.BackendTLS), Means: "HTTP/1.1 that is passed on to the backends in TLS"},
	{Word: string(flow.TCP), Means: "an opaque stream"},
	{Word: string(flow.DNS), Means: "DNS over UDP"},
	{Word: string(flow.New), Means: "a connection of its own for each request"},
	{Word: string(flow.Reused), Means: "connections that are kept for many requests, one at a time"},
	{Word: string(flow.Shared), Means: "two connections that are kept, and each of which carries many requests at once"},
	{Word: string(flow.Get), Means: "short replies"},
	{Word: string(flow.Slow), Means: "replies of known length that take as long as the name says"},
	{Word: string(flow.Chunked), Means: "replies in chunks that take as long as the name says"},
	{Word: string(flow.Upload), Means: "uploads that take as long as the name says"},
	{Word: string(flow.Post), Means: "short POSTs that the backend thinks about for as long as the name says"},
	{Word: string(flow.Continue), Means: "uploads that wait for 100 Continue, and take as long as the name says"},
	{Word: string(flow.Unary), Means: "gRPC calls of one message each way"},
	{Word: string(flow.ServerStream), Means: "gRPC calls that are answered with numbered messages for as long as the name says"},
	{Word: string(flow.Bidi), Means: "gRPC calls that send numbered messages for as long as the name says, and have each answered"},
	{Word: string(flow.Idle), Means: "a short reply on a connection that then says nothing for as long as the name says"},
	{Word: string(flow.WebSocket), Means: "WebSockets that are open for as long as the name says"},
	{Word: string(flow.HalfHeader), Means: "short replies to a header that comes in two halves, so far apart as the name says"},
	{Word: string(flow.Belated), Means: "short replies on connections on which nothing is said before, for as long as the name says"},
	{Word: string(flow.Ahead), Means: "two short replies on a connection, each of which the backend thinks about for as long as the name says: the second request is sent with the first"},
	{Word: string(flow.AheadPost), Means: "a short reply that the backend thinks about for as long as the name says, and an upload behind it that is sent meanwhile"},
	{Word: string(flow.Talk), Means: "a stream in which the server speaks first, gives back what the client sends for as long as the name says, and each side ends its own half"},
	{Word: string(flow.Hear), Means: "a stream whose server ends its half at once, and hears what the client sends for as long as the name says"},
	{Word: string(flow.Mute), Means: "connections on which the client says nothing for as long as the name says, not even in TLS"},
	{Word: string(flow.Lookup), Means: "one address is asked for"},
	{Word: string(flow.Check), Means: "the port's 200 or 503"},
}

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
	words := slices.DeleteFunc(slices.Clone(parts), func(m text.Meaning) bool { return !slices.Contains(named, m.Word) })
	if delayed {
		words = append(words, text.Meaning{Word: "delay=", Means: "so much is added to the way, in each direction"})
	}
	out.WriteString(text.Meanings(words))
	return out.String()
}
