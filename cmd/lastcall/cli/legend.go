// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/load"
)

// meaning is a word of ours, and what it means.
type meaning struct{ word, means string }

// instants are the words for what happens to an instance, and when.
var instants = []meaning{
	{"T_del", "the API server shows the pod's deletion"},
	{"D", "the pod was told to stop: its preStop hook or SIGTERM reached it"},
	{"T_endpoint", "its endpoint is published as terminating"},
	{"T(serving=false)", "its endpoint says that it serves no more"},
	{"T_lastnew", "the last new connection that reached it"},
	{"T_exit", "its process is gone"},
	{"T_net", "its network interface is gone"},
	{"P", "the propagation window: how long the cluster may take to notice that a pod goes (--p)"},
	{"K", "the kill: what is left of the pod ends when its grace period is over"},
}

// parts are the words that streams are named by, in the order of the names.
var parts = []meaning{
	{string(load.Direct), "dialled at the pod's own address"},
	{string(load.Service), "dialled at the Service's address"},
	{string(load.ServiceLocal), "at a Service whose internal traffic stays on the client's node"},
	{string(load.Sticky), "at a Service that keeps a client with one pod"},
	{string(load.Publishing), "at a Service that publishes pods that are not ready, too"},
	{string(load.NodePort), "from outside the cluster, at a node's port"},
	{string(load.NodePortLocal), "from outside, at the port of the pod's own node, whose traffic stays there"},
	{string(load.HealthPort), "from outside, at the health check port of the pod's own node"},
	{string(load.Balanced), "from outside, through a load balancer that asks these health check ports"},
	{string(load.Headless), "a question to the cluster's DNS for a headless Service"},
	{string(load.HeadlessPublishing), "the same for one that publishes pods that are not ready, too"},
	{string(load.HTTP1), "HTTP/1.1"},
	{string(load.H2C), "HTTP/2 in plaintext"},
	{string(load.DNS), "DNS over UDP"},
	{string(load.New), "a connection of its own for each request"},
	{string(load.Reused), "kept connections"},
	{string(load.Get), "short replies"},
	{string(load.Slow), "replies of known length that take as long as the name says"},
	{string(load.Chunked), "the same in chunks"},
	{string(load.Upload), "uploads that take as long"},
	{string(load.Continue), "uploads that wait for 100 Continue"},
	{string(load.Lookup), "one address is asked for"},
	{string(load.Check), "the port's 200 or 503"},
}

// legend explains the words of ours that the text uses, and the names of its
// streams.
func legend(about string, traffic []load.Profile) string {
	var out strings.Builder
	say := func(all []meaning) {
		wide := 0
		for _, m := range all {
			wide = max(wide, len(m.word))
		}
		for _, m := range all {
			fmt.Fprintf(&out, "  %-*s  %s\n", wide, m.word, m.means)
		}
	}
	var used []meaning
	for _, m := range instants {
		// A letter is a word of ours where no other letter touches it: "[D, D+P]".
		if regexp.MustCompile(`(^|[^A-Za-z_])` + regexp.QuoteMeta(m.word) + `([^A-Za-z_]|$)`).MatchString(about) {
			used = append(used, m)
		}
	}
	say(used)
	if len(traffic) == 0 {
		return out.String()
	}
	fmt.Fprintf(&out, "  A stream's name is path/protocol/connections/request, as in %s:\n", traffic[0].Key())
	var named []string
	delayed := false
	for _, p := range traffic {
		named = append(named, string(p.Path), string(p.Protocol), string(p.Conns), string(p.Op))
		delayed = delayed || p.Delay > 0
	}
	words := slices.DeleteFunc(slices.Clone(parts), func(m meaning) bool { return !slices.Contains(named, m.word) })
	if delayed {
		words = append(words, meaning{"delay=", "the way is so much longer, in each direction"})
	}
	say(words)
	return out.String()
}
