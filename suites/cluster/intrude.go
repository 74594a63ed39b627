// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// knockBudget bounds a request to what begins a pod's drain: it goes through the API server and
// the kubelet.
const knockBudget = 10 * time.Second

// afterIntrusion is how long an instance is looked at before it is deleted: a drain that a GET
// began would be told by then.
const afterIntrusion = 3 * time.Second

// Intrude tries each request that begins a pod's drain, or ends it. Within the pod it is asked by a
// port forwarding: the kubelet dials from the pod's own loopback.
func (g *ground) Intrude(ctx context.Context, pod *corev1.Pod) error {
	numbers := g.subject.placed.Ports
	in := disrupt.Intrusion{
		Own: func(port string) string { return net.JoinHostPort("localhost", strconv.Itoa(numbers[port])) },
		// A port forwarding accepts whoever is there: an answer shows that somebody is.
		Get: func(ctx context.Context, c disrupt.Control) (int, error) {
			return g.knock(ctx, pod, numbers[c.Port], c.Path)
		},
		Elsewhere: func(ctx context.Context, c disrupt.Control) ([]disrupt.Try, error) {
			if g.meshed() {
				return g.trespass(ctx, pod, numbers[c.Port], c.Path)
			}
			return g.dialFromElsewhere(ctx, pod, numbers[c.Port])
		},
		Tell: func(at time.Duration, attrs map[string]string) {
			g.sink.Emit(timeline.Record{Event: &timeline.Event{
				At: at, Source: "runner", Kind: timeline.Control, Subject: string(pod.UID), Name: pod.Name, Node: pod.Spec.NodeName, Attrs: attrs,
			}}, 0)
		},
		Watch: afterIntrusion,
	}
	for _, h := range g.system.Controls() {
		in.Controls = append(in.Controls, disrupt.Control{Port: h.Port, Path: cmp.Or(h.Post, h.Get)})
	}
	return in.Run(ctx)
}

// trespass is behaviour.Trespass of the probe's pod.
func (g *ground) trespass(ctx context.Context, pod *corev1.Pod, number int, path string) ([]disrupt.Try, error) {
	p := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}}
	var out []disrupt.Try
	for _, ip := range pod.Status.PodIPs {
		some, err := behaviour.Trespass(ctx, g.probe.Asks, g.stream(p, string(pod.UID), g.at(ip.IP, p.Protocol)), ip.IP, number, path)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// knock asks for a path within a pod, by GET.
func (g *ground) knock(ctx context.Context, pod *corev1.Pod, port int, path string) (status int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, knockBudget, fmt.Errorf("no answer within %s", knockBudget))
	defer cancel()
	dial := forward(g.stage.cfg.Rest, pod.Namespace, pod.Name, port)
	client := http.Client{
		Transport:     &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:"+strconv.Itoa(port)+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// dialFromElsewhere says whether a pod's port accepts at the pod's own addresses, which all other
// pods reach: the one that tries is the probe's.
func (g *ground) dialFromElsewhere(ctx context.Context, pod *corev1.Pod, number int) ([]disrupt.Try, error) {
	var out []disrupt.Try
	for _, ip := range pod.Status.PodIPs {
		t := disrupt.Try{At: timeline.Monotonic(), To: net.JoinHostPort(ip.IP, strconv.Itoa(number))}
		refused, err := g.probe.Dials(ctx, t.To)
		if err != nil {
			return nil, fmt.Errorf("dialling %s from another pod: %w", t.To, err)
		}
		if refused != "" {
			t.Err = errors.New(refused)
		}
		out = append(out, t)
	}
	return out, nil
}
