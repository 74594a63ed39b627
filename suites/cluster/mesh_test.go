// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
)

// What a pod's annotation says of a sidecar is no sidecar.
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
		if is := injected(pod); is != want {
			t.Errorf("%q: %t, want %t", settings, is, want)
		}
	}
}
