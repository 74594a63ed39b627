// SPDX-License-Identifier: Apache-2.0

package systems

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// The webhook is asked once of each pod that is in the mesh, and of nobody else's, by the path that says what the pod's
// namespace asks for.
func TestWhoseWebhook(t *testing.T) {
	sys, err := Reference(system.Controller)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := sys.RenderManifests(sys.InPod(system.Place{
		Name: "mesh", Namespace: "lastcall-r1-mesh", Mesh: "r1", ServerName: "mesh", Image: "lastcall.dev/agent:test",
		MinDrain: sys.Drain.MinDrain.D(), Timeout: sys.Drain.Cut(), Grace: sys.Drain.Grace.D(),
	}))
	if err != nil {
		t.Fatal(err)
	}
	var hook admissionv1.MutatingWebhookConfiguration
	for _, u := range all {
		if u.GetKind() == "MutatingWebhookConfiguration" {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &hook, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	const nobody = ""
	type set = labels.Set
	in, node, out := set{membership.MeshLabel: "r1"}, set{membership.DataplaneLabel: membership.NodeDataplane}, set{injector.OutLabel: "false"}
	with := func(all ...set) set {
		both := set{}
		for _, one := range all {
			both = labels.Merge(both, one)
		}
		return both
	}
	for name, c := range map[string]struct {
		namespace, pod set
		path           string
	}{
		"by its namespace":              {in, nil, controller.InjectPath},
		"by its namespace, and itself":  {in, in, controller.InjectPath},
		"by itself":                     {nil, in, controller.InjectPath},
		"by itself, for the proxy":      {nil, with(in, node), controller.InjectPath},
		"its namespace is the proxy's":  {with(in, node), nil, controller.NodeInjectPath},
		"it is the proxy's":             {in, node, controller.InjectPath},
		"out of a namespace":            {in, out, nobody},
		"out of one that's the proxy's": {with(in, node), out, nobody},
		"out, and asks":                 {nil, with(in, out), nobody},
		"nobody asks":                   {nil, nil, nobody},
		"the proxy's, and of no mesh":   {node, node, nobody},
		"of another mesh":               {set{membership.MeshLabel: "r2"}, in, nobody},
		"asks for another mesh":         {nil, set{membership.MeshLabel: "r2"}, nobody},
	} {
		var asked []string
		for _, w := range hook.Webhooks {
			if selects(t, w.NamespaceSelector, c.namespace) && selects(t, w.ObjectSelector, c.pod) {
				asked = append(asked, *w.ClientConfig.Service.Path)
			}
		}
		if want := slices.DeleteFunc([]string{c.path}, func(p string) bool { return p == nobody }); !slices.Equal(asked, want) {
			t.Errorf("%s: %q, want %q", name, asked, want)
		}
	}
}

func selects(t *testing.T, by *metav1.LabelSelector, of labels.Set) bool {
	s, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(of)
}
