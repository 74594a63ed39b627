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
)

// knockBudget bounds a request to what begins a pod's drain: it goes through the API server and
// the kubelet.
const knockBudget = 10 * time.Second

// afterIntrusion is how long an instance is looked at before it is deleted: a drain that a GET
// began would be told by then.
const afterIntrusion = 3 * time.Second

// Intrude tries each request that begins a pod's drain, or ends it. From within the pod, which a
// port forwarding is (the kubelet dials from the pod's own loopback), it has to be there; from
// another pod, the probe's, nothing may accept at its port; and a GET may begin nothing.
func (g *ground) Intrude(ctx context.Context, pod *corev1.Pod) error {
	controls := g.system.Controls()
	if len(controls) == 0 {
		return errors.New("the system names no request that begins its drain")
	}
	tried := map[string]bool{}
	for _, h := range controls {
		number, path := g.subject.placed.Ports[h.Port], cmp.Or(h.Post, h.Get)
		own := net.JoinHostPort("localhost", strconv.Itoa(number))
		at := timeline.Monotonic()
		status, err := g.knock(ctx, pod, number, path)
		if !tried[h.Port] {
			tried[h.Port] = true
			// A port forwarding accepts whoever is there: an answer shows that somebody is.
			g.tellControl(pod, at, map[string]string{"from": timeline.ControlOwn, "to": own, "port": h.Port}, err)
			if err := g.dialFromElsewhere(ctx, pod, number, h.Port); err != nil {
				return err
			}
		}
		attrs := map[string]string{"from": timeline.ControlOwn, "to": own, "port": h.Port, "method": http.MethodGet, "path": path}
		if err == nil {
			attrs["status"] = strconv.Itoa(status)
		}
		g.tellControl(pod, at, attrs, err)
	}
	return disrupt.Pause(ctx, afterIntrusion)
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

// dialFromElsewhere tells whether a pod's port accepts at the pod's own addresses, which all other
// pods reach: the one that tries is the probe's.
func (g *ground) dialFromElsewhere(ctx context.Context, pod *corev1.Pod, number int, port string) error {
	for _, ip := range pod.Status.PodIPs {
		to := net.JoinHostPort(ip.IP, strconv.Itoa(number))
		at := timeline.Monotonic()
		refused, err := g.probe.Dials(ctx, to)
		if err != nil {
			return fmt.Errorf("dialling %s from another pod: %w", to, err)
		}
		if refused != "" {
			err = errors.New(refused)
		}
		g.tellControl(pod, at, map[string]string{"from": timeline.ControlElsewhere, "to": to, "port": port}, err)
	}
	return nil
}

func (g *ground) tellControl(pod *corev1.Pod, at time.Duration, attrs map[string]string, err error) {
	if err != nil {
		attrs["error"] = err.Error()
	}
	g.sink.Emit(timeline.Record{Event: &timeline.Event{
		At: at, Source: "runner", Kind: timeline.Control, Subject: string(pod.UID), Name: pod.Name, Node: pod.Spec.NodeName, Attrs: attrs,
	}}, 0)
}
