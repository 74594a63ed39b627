// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
)

// What a pod's annotation says of a sidecar is no sidecar; and who its node's proxy serves has that annotation alone.
func TestInjected(t *testing.T) {
	for settings, want := range map[string]bool{"": true, "form: plain": true, "none": false} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
		}
		if want {
			pod.Annotations[injector.SettingsAnnotation] = settings
			if err := (&injector.Injector{Roots: func() []byte { return nil }}).Inject(pod); err != nil {
				t.Fatal(err)
			}
		}
		pod.Annotations[meshapi.DataplaneAnnotation] = injector.SidecarDataplane
		if is := injected(pod, injector.SidecarDataplane); is != want {
			t.Errorf("%q: %t, want %t", settings, is, want)
		}
		if injected(pod, membership.NodeDataplane) {
			t.Errorf("%q: a sidecar's counts as a node proxy's", settings)
		}
		pod.Annotations[meshapi.DataplaneAnnotation] = membership.NodeDataplane
		if !injected(pod, membership.NodeDataplane) {
			t.Errorf("%q: annotated, and not a node proxy's", settings)
		}
	}
}

// The pods of node proxies get no sidecar, whatever labels their manifest has.
func TestLeaveOut(t *testing.T) {
	made := func(kind, name string, labels map[string]any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"kind": kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": labels}}},
		}}
	}
	none := unstructured.Unstructured{Object: map[string]any{"kind": "DaemonSet", "metadata": map[string]any{"name": "proxy"}, "spec": map[string]any{}}}
	for name, c := range map[string]struct {
		object unstructured.Unstructured
		out    bool
	}{
		"another label":     {made("DaemonSet", "proxy", map[string]any{"app": "proxy"}), true},
		"the other word":    {made("DaemonSet", "proxy", map[string]any{injector.OutLabel: "true"}), true},
		"no labels":         {none, true},
		"another DaemonSet": {made("DaemonSet", "other", map[string]any{"app": "proxy"}), false},
		"another kind":      {made("Deployment", "proxy", map[string]any{"app": "proxy"}), false},
	} {
		if err := leaveOut([]unstructured.Unstructured{c.object}, disrupt.Workload{Kind: disrupt.DaemonSet, Name: "proxy"}); err != nil {
			t.Fatal(err)
		}
		labels, _, err := unstructured.NestedStringMap(c.object.Object, "spec", "template", "metadata", "labels")
		if (labels[injector.OutLabel] == "false") != c.out || err != nil {
			t.Errorf("%s: %v, %v", name, labels, err)
		}
	}
}
