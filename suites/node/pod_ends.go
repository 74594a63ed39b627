// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:     "node.pod-ends",
	Title:  "The peers of a workload that ends are told on each tunnel, by GOAWAY and close_notify, before its interface goes",
	Level:  spec.Must,
	Labels: []string{"core"},
	Refs: []spec.Ref{{
		Doc: "RFC 8446", Section: "section 6.1", URL: "https://www.rfc-editor.org/rfc/rfc8446#section-6.1",
		Quote: "Each party MUST send a \"close_notify\" alert before closing its write side of the connection, unless it has already sent some error alert.",
	}, {
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}, {
		Doc: "CNI Specification 0.4.0", Section: "Network Configuration Lists", URL: "https://github.com/containernetworking/cni/blob/spec-v0.4.0/SPEC.md#network-configuration-lists",
		Quote: "For the DEL action, the runtime MUST execute the plugins in reverse-order.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A node proxy outlives the workloads that it serves. When one ends, its tunnels end by nobody's close: its interface is taken away below them, and what a proxy sends from then on goes nowhere. A peer that was not told before keeps them in its pool, and the next connections of its apps go into tunnels that answer nothing until a keepalive gives them up.",
	Causes: "Nobody tells the node proxy before the network is gone: it hears of the end from the API, or from a CNI plugin that does not wait for it. Or the proxy acknowledges the removal when it is received instead of when it is done.",
	Fix:    "Have the mesh's CNI plugin, last in the chain, ask for the end of the workload in DEL and wait for it, for a bounded time; in the proxy, send GOAWAY and close_notify on each tunnel, wait until the peer's kernel has them, and acknowledge then.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    behaviour.NodeTraffic,
	Checks:     []assertions.Check{ToldBeforeItGoes()},
	BrokenBy:   []spec.Fault{nodeproxy.EndsUntold, nodeproxy.AcknowledgesFirst, nodeproxy.ForgetsCloseNotify},
	Resolution: 60 * time.Millisecond,
})

// standing are the tunnels that the end of a workload is about.
const standing = "tunnels that stood when the app had exited"

// ToldBeforeItGoes judges the tunnels that stood when the app had exited: each is told, and ended in TLS too,
// before the interface goes. That a frame was read at all says that it had left by then; when it was read
// a busy machine says too, so that a late one is late only where nothing was starved.
func ToldBeforeItGoes() assertions.Check {
	stood := assertions.ConnectionsPerTermination(standing)
	silent := assertions.Floor{Per: "termination", Name: "of these, tunnels with nothing in them", N: 5,
		Reason: "a client opens some each second and keeps them until behind the end",
	}
	return assertions.Check{
		Name:     standing,
		Expected: "GOAWAY and then close_notify come on each before the interface of the workload goes",
		Floors:   []assertions.Floor{stood, silent},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			var last time.Duration // from the app's exit
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() || !t.Net.Known() {
					tally.Doubt("%s: nobody saw when its app had exited, or when its interface went", t.Name)
					continue
				}
				tally.Span(t.Exit.At, t.Net.At)
				n, quiet := 0, 0
				for _, k := range tunnel.To(c, t) {
					if !k.StoodAt(t.Exit.At) || k.Deserted(t.Net.At) {
						continue
					}
					n++
					if k.Silent() {
						quiet++
					}
					id := k.Samples[0].ID
					switch lacks, said := farewell(k, 0, t.Net.At); {
					case lacks != "":
						tally.Against(t.Net.At, t.Name, id, "%s: %s %s when the interface went", t.Clock(t.Net.At), k, lacks)
					case said > t.Net.At:
						tally.Late(c, t.Net.At, t.Name, id, "%s: %s was told %s after the interface had gone", t.Clock(said), k, (said - t.Net.At).Round(time.Millisecond))
					default:
						last = max(last, said-t.Exit.At)
					}
				}
				all += n
				tally.Least(stood, t.Name, n)
				tally.Least(silent, t.Name, quiet)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d %s got GOAWAY and close_notify before the interface went, the last of them %s after the exit", all, standing, last.Round(time.Millisecond)),
				fmt.Sprintf("%d of %d %s were not told before the interface went", tally.Culprits(), all, standing))
		},
	}
}
