// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// threeOnTwo are targets as they are found: two on one node, and one on another.
func threeOnTwo() []deploy.Instance {
	return []deploy.Instance{
		{UID: "c", IP: "10.0.0.3", Node: "n2", NodeIPs: []string{"172.18.0.4"}},
		{UID: "a", IP: "10.0.0.1", Node: "n1", NodeIPs: []string{"172.18.0.3", "fc00::3"}},
		{UID: "b", IP: "10.0.0.2", Node: "n1", NodeIPs: []string{"172.18.0.3", "fc00::3"}},
	}
}

// taking is a ground of a scenario whose traffic takes some paths, in a cluster that has the
// Service of each, and some more objects.
func taking(t *testing.T, paths []flow.Path, more ...runtime.Object) *ground {
	t.Helper()
	g := &ground{scope: deploy.Scope{Run: "r1", Namespace: "lastcall-r1"}, targets: threeOnTwo(), system: behaviour.Subject{System: &system.System{}}}
	for _, p := range paths {
		f := flow.Flow{Path: p, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}
		if p == flow.Headless || p == flow.HeadlessPublishing {
			f.Op = flow.Lookup
		}
		g.scenario.Traffic = append(g.scenario.Traffic, load.Profile{Flow: f, Rate: 10})
	}
	objects := more
	for i, v := range g.views() {
		objects = append(objects, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.scope.Namespace, Name: deploy.ServiceName(echoName, v)},
			Spec: corev1.ServiceSpec{
				ClusterIP: "10.96.0." + string(rune('1'+i)), IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, HealthCheckNodePort: 30_100,
				Ports: []corev1.ServicePort{{Port: deploy.WorkPort, NodePort: 30_001}},
			},
		})
	}
	g.stage = &Stage{shared: &shared{cs: fake.NewClientset(objects...)}}
	return g
}

func nameServerAt(ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns"}, Spec: corev1.ServiceSpec{ClusterIP: ip}}
}

// The app's own Service is always there, and one for each path that leads through another, once.
func TestViews(t *testing.T) {
	g := taking(t, []flow.Path{flow.Direct, flow.HealthPort, flow.NodePortLocal, flow.Balanced, flow.Headless})
	want := []deploy.View{deploy.View(flow.Service), deploy.View(flow.NodePortLocal), deploy.View(flow.Headless)}
	if got := g.views(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (&ground{}).views(); !slices.Equal(got, want[:1]) {
		t.Errorf("without traffic: %v", got)
	}
}

// Each path leads to the addresses that the cluster gave it: a target's own, a Service's, or that
// of each node that holds one.
func TestStreams(t *testing.T) {
	type to map[string]string // by what the stream is named after
	all := []flow.Path{
		flow.Direct, flow.Service, flow.ServiceLocal, flow.Sticky, flow.NodePort, flow.NodePortLocal, flow.HealthPort, flow.Headless, flow.HeadlessPublishing,
	}
	g := taking(t, all, nameServerAt("10.96.0.99"))
	if err := g.findWays(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := func(p flow.Path) string { return g.ways.services[viewOf(p)].Spec.ClusterIP + ":8080" }
	for i, want := range []to{
		{"a": "10.0.0.1:8080", "b": "10.0.0.2:8080", "c": "10.0.0.3:8080"},
		{"": at(flow.Service)}, {"": at(flow.ServiceLocal)}, {"": at(flow.Sticky)},
		{"": "172.18.0.3:30001"},
		{"n1": "172.18.0.3:30001", "n2": "172.18.0.4:30001"},
		{"n1": "172.18.0.3:30100", "n2": "172.18.0.4:30100"},
		{"": "10.96.0.99:53"}, {"": "10.96.0.99:53"},
	} {
		streams, err := g.streams(g.scenario.Traffic[i])
		if err != nil {
			t.Errorf("%s: %v", all[i], err)
			continue
		}
		got := to{}
		for _, s := range streams {
			got[s.Name.Target()] = s.Addr
			if s.Name.Flow() != g.scenario.Traffic[i].Flow {
				t.Errorf("%s: a stream of %s", all[i], s.Name)
			}
			name := ""
			if all[i] == flow.Headless || all[i] == flow.HeadlessPublishing {
				name = deploy.ServiceName(echoName, viewOf(all[i])) + ".lastcall-r1.svc.cluster.local."
			}
			if s.Query != name || s.IPv6 {
				t.Errorf("%s: asks for %q, IPv6 %t", all[i], s.Query, s.IPv6)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got): %s", all[i], d)
		}
	}
	// In a cluster of IPv6 the name's other addresses are asked for.
	svc := g.ways.services[deploy.View(flow.Headless)]
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	if streams, err := g.streams(g.scenario.Traffic[slices.Index(all, flow.Headless)]); err != nil || !streams[0].IPv6 {
		t.Errorf("%+v, %v", streams, err)
	}
	if _, err := g.streams(load.Profile{Flow: flow.Flow{Path: flow.Balanced, Protocol: flow.HTTP1}}); err == nil {
		t.Error("it leads through a balancer that is not there")
	}
}

// A way that is not there is an error that says which; a name server is missed by lookups alone.
func TestFindWays(t *testing.T) {
	for name, tc := range map[string]struct {
		paths  []flow.Path
		server bool
		gone   deploy.View // is deleted first
		says   string
	}{
		"all are there":                     {[]flow.Path{flow.Direct, flow.NodePort}, false, "", ""},
		"a Service is missing":              {[]flow.Path{flow.NodePort}, false, deploy.View(flow.NodePort), "the Service of the path " + string(flow.NodePort)},
		"a name server":                     {[]flow.Path{flow.Direct, flow.Headless}, true, "", ""},
		"no name server, and one is needed": {[]flow.Path{flow.Headless}, false, "", "the cluster's name server"},
	} {
		var more []runtime.Object
		if tc.server {
			more = append(more, nameServerAt("10.96.0.10"))
		}
		g := taking(t, tc.paths, more...)
		if tc.gone != "" {
			if err := g.stage.cs.CoreV1().Services(g.scope.Namespace).Delete(context.Background(), deploy.ServiceName(echoName, tc.gone), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		err := g.findWays(t.Context())
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		if want := map[bool]string{true: "10.96.0.10:53"}[tc.server]; g.ways.dns != want {
			t.Errorf("%s: the name server is at %q", name, g.ways.dns)
		}
	}
}

func TestNodesOf(t *testing.T) {
	targets := threeOnTwo()
	got := nodesOf(targets)
	if len(got) != 2 || got[0].Node != "n1" || got[1].Node != "n2" || got[1].NodeIPs[0] != "172.18.0.4" {
		t.Errorf("%+v", got)
	}
	if targets[0].UID != "c" {
		t.Error("it sorts what others read")
	}
}
