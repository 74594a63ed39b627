// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
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
	BrokenBy:   []spec.Fault{nodeproxy.EndsUntold, nodeproxy.AcknowledgesFirst, nodeproxy.ForgetsCloseNotify, nodeproxy.EndsInTLSOnly},
	Resolution: 60 * time.Millisecond,
})

// standing are the tunnels that the end of a workload is about.
const standing = "tunnels that stood when the app had exited"

// orTold are those that count as evidence.
const orTold = standing + ", or had been told all since its end began"

// ToldBeforeItGoes judges the tunnels that stood when the app had exited: each is told, and ended in TLS too,
// before the interface goes. A frame is read a moment after it came, and later on a busy machine: where the wire had the
// tunnel's FIN before, it is no matter when it was read, and where nobody watches that, a late one is late only where nothing was starved.
func ToldBeforeItGoes() assertions.Check {
	stood := assertions.ConnectionsPerTermination(orTold)
	wired := assertions.Floor{Per: "termination", Name: "tunnels of its pod that the wire had then, or whose end it had had since the pod's began, where that is watched", N: 1,
		Reason: "it shows that what passes is seen; a pool needs few of them"}
	silent := assertions.Floor{Per: "termination", Name: "of these, tunnels with nothing in them", N: 5,
		Reason: "a client opens some each second and keeps them until behind the end",
	}
	return assertions.Check{
		Name:     standing,
		Expected: "GOAWAY and then close_notify come on each before the interface of the workload goes; and by then its FIN or an RST has left the workload on each that the mesh's pods have with it, which is judged where somebody watches the nodes' wires: on the bench, and on clusters that the suite made",
		Floors:   []assertions.Floor{stood, silent, wired},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, early, onWire := 0, 0, 0
			had := wired.OnWire(c)
			var last time.Duration // from the app's exit
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() || !t.Net.Known() {
					tally.Doubt("%s: nobody saw when its app had exited, or when its interface went", t.Name)
					continue
				}
				tally.Span(t.Exit.At, t.Net.At)
				n, quiet := 0, 0
				for _, k := range tunnel.To(c, t) {
					lacks, told := endedEarly(k, t)
					if lacks != "" {
						n++
						tally.Against(t.Exit.At, t.Name, k.Samples[0].ID, "%s: %s %s when it ended, before the app had exited", t.Clock(t.Exit.At), k, lacks)
						continue
					}
					if !told && (!k.StoodAt(t.Exit.At) || k.Deserted(t.Net.At)) {
						continue
					}
					n++
					if k.Silent() {
						quiet++
					}
					if told {
						early++
						continue
					}
					switch lacks, said := k.Farewell(0, t.Net.At); {
					case lacks != "":
						k.Lacked(&tally, c, t.Net.At, t.Name, "%s: %s %s when the interface went", t.Clock(t.Net.At), k, lacks)
					case said > t.Net.At+readWithin && !leftBy(c, k, t.Net.At):
						tally.Late(c, t.Net.At, t.Name, k.Samples[0].ID, "%s: %s was told %s after the interface had gone", t.Clock(said), k, (said - t.Net.At).Round(time.Millisecond))
					default:
						last = max(last, said-t.Exit.At)
					}
				}
				all += n
				tally.Least(stood, t.Name, n)
				tally.Least(silent, t.Name, quiet)
				k := endedOnWire(&tally, c, t)
				onWire += k
				tally.Least(had, t.Name, k)
			}
			tally.SeenWire(c)
			before := ""
			if early > 0 {
				before = fmt.Sprintf("%d of these before the exit; of the rest ", early)
			}
			also := "whether each ended in TCP too was not judged: nobody watches the wire here"
			if c.Wired {
				also = fmt.Sprintf("so had the wire the end of each of the %d tunnels that it showed", onWire)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d %s got GOAWAY and close_notify before the interface went, %sthe last of them %s after the exit; %s", all, orTold, before, last.Round(time.Millisecond), also),
				fmt.Sprintf("%s not told, or not ended, before the interface went, of the %d that stood when the app had exited and the %d that the wire showed", assertions.Plural(tally.Culprits(), "tunnel was", "tunnels were"), all-early, onWire))
		},
	}
}

// endedOnWire judges the tunnels of a workload, to it and from it, that the wire showed and that stood when its app had
// exited: each has left before its interface goes, and when it passed the kernel says.
// It counts them, and those whose end the wire had had since the workload's own began.
func endedOnWire(y *assertions.Tally, c assertions.Case, t assertions.Ending) int {
	type ends struct{ own, other string } // host:port
	var dialled []ends                    // each is told once, so that culprits stand in the order of the wire
	since, over := map[ends]time.Duration{}, map[ends]time.Duration{}
	for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
		from, to, what := e.Attrs["from"], e.Attrs["to"], e.Attrs["what"]
		own, of := ends{from, to}, at(from, t.IPs)
		if !of {
			own = ends{to, from}
		}
		switch {
		case !of && !at(to, t.IPs):
		case what == timeline.WireDialled && tunnel.Takes(to) && e.At < t.Exit.At:
			dialled = append(dialled, own)
			since[own] = e.At
		case what == timeline.WireReset, what == timeline.WireEnded && of:
			if _, ended := over[own]; !ended {
				over[own] = e.At
			}
		}
	}
	n := 0
	for _, k := range dialled {
		when, ended := over[k]
		switch {
		case ended && when < t.Exit.At:
			if begun := t.Earliest(); since[k] >= begun || when < begun {
				continue
			}
		case !ended:
			y.Late(c, t.Net.At, t.Name, "", "%s: the tunnel between %s and %s had neither FIN nor RST from it when the interface went", t.Clock(t.Net.At), k.own, k.other)
		case when > t.Net.At:
			y.Late(c, t.Net.At, t.Name, "", "%s: the wire had the end of the tunnel between %s and %s when the interface had gone", t.Clock(when), k.own, k.other)
		}
		n++
	}
	return n
}
