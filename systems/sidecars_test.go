// SPDX-License-Identifier: Apache-2.0

package systems

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// Vendors' sidecars stand in the pods of the reference app, each in its form, with the app's times and
// the redirect before all else.
func TestSidecarsAsPods(t *testing.T) {
	app, err := Reference(system.Sidecar)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("envoy-sidecar-*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			sys, err := system.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			own := sys.InPod(system.Place{
				Address: "::", MinDrain: sys.Drain.MinDrain.D(), Timeout: sys.Drain.Cut(), Grace: 40 * time.Second,
				Image: "lastcall.dev/agent:test", Ledger: "/var/lib/lastcall/r1",
			})
			of := own
			of.MinDrain, of.Timeout, of.Liveness = 9*time.Second, 25*time.Second, time.Second
			all, ended, err := sys.RenderBeside(app, own, of)
			if err != nil {
				t.Fatal(err)
			}
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(all[ended].Object, &d, true); err != nil {
				t.Fatal(err)
			}
			pod := d.Spec.Template.Spec
			if len(d.Spec.Template.Annotations) > 0 || *pod.TerminationGracePeriodSeconds != 40 {
				t.Errorf("%v, %+v", d.Spec.Template.Annotations, pod)
			}
			named := func(all []corev1.Container, name string) *corev1.Container {
				if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
					return &all[i]
				}
				return nil
			}
			echo := named(pod.Containers, app.Cluster.Container)
			if echo == nil || !slices.Contains(echo.Args, "--listen=:8080") || !slices.Contains(echo.Args, "--min-drain=9s") || echo.LivenessProbe.PeriodSeconds != 1 {
				t.Fatalf("the app: %+v", echo)
			}
			native := sys.Cluster.Form == system.Native
			if beside, before := named(pod.Containers, "envoy"), named(pod.InitContainers, "envoy"); (before != nil) != native || (beside != nil) == native {
				t.Errorf("Envoy: %v, %v", beside, before)
			}
			if pod.InitContainers[0].Name != "redirect" || !strings.Contains(pod.InitContainers[0].Args[0], "passUsers: [1337]") {
				t.Errorf("the redirect: %+v", pod.InitContainers)
			}
			drains := named(pod.Containers, "envoy-drain")
			if hooked := sys.Terminate[0].Signal == ""; hooked != (drains != nil) {
				t.Errorf("the hook: %+v", drains)
			} else if hooked {
				call := sys.Terminate[0].HTTP.Post
				if command := drains.Lifecycle.PreStop.Exec.Command; !slices.Contains(command, "--post=http://127.0.0.1:15000"+call) {
					t.Errorf("the hook posts %q, and the file says %s", command, call)
				}
			}
		})
	}
}
