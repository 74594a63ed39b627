// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// An address is that of a pod of the system, from when the watch has told it; that
// of anybody else's is nobody's.
func TestFronts(t *testing.T) {
	var f fronts
	pod := func(kind timeline.EventKind, uid, owner, ip string) {
		f.note(timeline.Event{Kind: kind, Subject: uid, Attrs: map[string]string{"owner": owner, "ip": ip}})
	}
	pod(timeline.PodSeen, "early", "ReplicaSet/gateway-1", "10.0.0.9")
	f.expect("gateway")
	pod(timeline.PodSeen, "b", "ReplicaSet/backend-1", "10.0.0.1")
	pod(timeline.PodReady, "b", "", "10.0.0.1")
	pod(timeline.PodSeen, "g1", "ReplicaSet/gateway-1", "")
	pod(timeline.PodReady, "g1", "", "10.0.0.2")
	pod(timeline.PodSeen, "other", "ReplicaSet/gatewayed-1", "10.0.0.4")
	pod(timeline.PodSeen, "g2", "ReplicaSet/gateway-1", "10.0.0.3")
	for ip, want := range map[string]string{"10.0.0.1": "", "10.0.0.2": "g1", "10.0.0.3": "g2", "10.0.0.4": "", "10.0.0.9": "", "": ""} {
		if got := f.of(ip); got != want {
			t.Errorf("%q is %q, want %q", ip, got, want)
		}
	}
}

func TestSubjectPorts(t *testing.T) {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: deploy.WorkPort, NodePort: 1}, {Port: 18081, NodePort: 2}, {Port: 18443, NodePort: 3}}}}
	app, gate := subject{}, subject{ports: []deploy.Port{{Name: "h2c", Number: 18081}, {Name: "tls", Number: 18443}}}
	hub := subject{ports: []deploy.Port{{Name: "tls", Number: 9443}, {Name: "grpc", Number: 15012}}}
	for _, c := range []struct {
		of       subject
		protocol flow.Protocol
		number   int32
		node     int32
	}{{app, flow.HTTP1, deploy.WorkPort, 1}, {app, flow.H2C, deploy.WorkPort, 1}, {gate, flow.H2C, 18081, 2}, {gate, flow.TLS1, 18443, 3}, {gate, flow.H2, 18443, 3}, {hub, flow.TLS1, 9443, 0}, {hub, flow.XDS, 15012, 0}} {
		if _, got := c.of.port(c.protocol); got != c.number {
			t.Errorf("%s is at %d, want %d", c.protocol, got, c.number)
		}
		if got := c.of.nodePort(svc, c.protocol); got != c.node {
			t.Errorf("%s has node port %d, want %d", c.protocol, got, c.node)
		}
	}
}
