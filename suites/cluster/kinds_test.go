// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// hello is an app as a workload of a kind.
func hello(kind, pod string) *system.System {
	sys := &system.System{
		Metadata: system.Metadata{Name: "hello"}, Roles: []system.Role{system.App}, Features: []spec.Feature{spec.HTTP1},
		Ports: map[string]int{"http1": 8080}, Terminate: []system.Step{{Signal: "TERM"}},
		Cluster: &system.Cluster{Manifests: []string{"pods.yaml"}},
	}
	sys.In(fstest.MapFS{"pods.yaml": {Data: []byte(
		"{apiVersion: apps/v1, kind: " + kind + ", metadata: {name: hello}, spec: {template: {spec: {" + pod + "containers: [{name: hello}]}}}}")}})
	return sys
}

// A DaemonSet has as many pods as nodes, and no more are ended; what is about Deployments is not
// put to it.
func TestOfKind(t *testing.T) {
	s := &Stage{shared: &shared{}}
	for _, name := range []string{"a", "b", "control"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
		if name == "control" {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}
		s.nodes = append(s.nodes, n)
	}
	deletion := behaviour.Behaviour{ID: "pod.some", Disrupt: behaviour.DeleteEach, Topology: behaviour.Topology{Replicas: 3}}
	rolling := behaviour.Behaviour{ID: "rollout.some", Disrupt: behaviour.RollingUpdate, Topology: behaviour.Topology{Replicas: 8}}
	below := rolling
	below.ID = "rollout.never-below"
	pushed := behaviour.Behaviour{ID: "rollout.other", Disrupt: behaviour.PushNothing}
	scaled := behaviour.Behaviour{ID: "pod.other", Disrupt: behaviour.ScaleToZero}
	const everywhere, one = "tolerations: [{operator: Exists}], ", "nodeSelector: {name: a}, "
	for name, c := range map[string]struct {
		b             behaviour.Behaviour
		kind, pod     string
		replicas, end int
		why           string
	}{
		"a Deployment":              {deletion, "Deployment", "", 3, 3, ""},
		"a StatefulSet":             {deletion, "StatefulSet", "", 3, 3, ""},
		"a DaemonSet on workers":    {deletion, "DaemonSet", "", 2, 2, ""},
		"a DaemonSet on all":        {deletion, "DaemonSet", everywhere, 3, 3, ""},
		"a DaemonSet that rolls":    {rolling, "DaemonSet", "", 2, 0, ""},
		"a DaemonSet on one":        {deletion, "DaemonSet", one, 0, 0, "has a pod on 1 of the cluster's nodes"},
		"a Deployment's promise":    {below, "StatefulSet", "", 0, 0, "hello is a StatefulSet: run it with a Deployment"},
		"a Deployment's own":        {below, "Deployment", "", 8, 0, ""},
		"a push":                    {pushed, "DaemonSet", "", 0, 0, "hello is a DaemonSet: run it with a Deployment"},
		"a StatefulSet that scales": {scaled, "StatefulSet", "", 0, behaviour.ScaleToZero.Targets, ""},
		"a DaemonSet that scales":   {scaled, "DaemonSet", "", 0, 0, "it scales down, and the DaemonSet hello"},
		"no manifest":               {deletion, "Sloth", "", 0, 0, "its manifests can't be filled in: cluster.workload"},
	} {
		got, skip := s.ofKind(c.b, hello(c.kind, c.pod))
		if (skip.Why != "") != (c.why != "") || !strings.Contains(skip.Why, c.why) {
			t.Errorf("%s: %q, want %q", name, skip.Why, c.why)
		}
		if skip.Why == "" && (got.Topology.Replicas != c.replicas || got.Disrupt.Targets != c.end) {
			t.Errorf("%s: %d of %d pods are ended, want %d of %d", name, got.Disrupt.Targets, got.Topology.Replicas, c.end, c.replicas)
		}
	}
}

// What lives outside of namespaces is made on clusters of the suite's own.
func TestScopedElsewhere(t *testing.T) {
	sys := hello("Deployment", "")
	b := behaviour.Behaviour{ID: "pod.some", Disrupt: disrupt.DeleteEach(1)}
	if skip := Lacks(b, sys, false, true); skip.Why != "" {
		t.Errorf("without any: %s", skip.Why)
	}
	sys.Cluster.Scoped = []string{"ClusterRole/hello"}
	if skip := Lacks(b, sys, false, true); !strings.Contains(skip.Why, "hello has objects outside of namespaces (cluster.scoped)") {
		t.Errorf("with one: %q", skip.Why)
	}
	if skip := Lacks(b, sys, true, true); skip.Why != "" {
		t.Errorf("on a cluster of ours: %s", skip.Why)
	}
	b.Topology.Role = system.Gateway
	if skip := Lacks(b, nil, true, true); skip.Why != "" {
		t.Errorf("the reference gateway: %s", skip.Why)
	}
}
