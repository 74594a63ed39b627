// SPDX-License-Identifier: Apache-2.0

package systems

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// A vendor's node proxy takes the place of the reference's own, and nothing else is another. Brought by a file of
// its own the reference's proxy is put up as it is in the reference, but for its times.
func TestServing(t *testing.T) {
	reference, err := Reference(system.NodeProxy)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := system.Load("own-node-proxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !alone.Serves() || reference.Serves() || alone.AppIsOurs() {
		t.Error("which of the two serves the suite's own app is not told")
	}
	served := alone.Serving(reference)
	if served.Serves() || !served.AppIsOurs() || !served.Meshed() || served.Reference() {
		t.Error("with what it serves it is none that stands for itself")
	}
	if got, want := served.Drain, alone.Drain; got != want {
		t.Errorf("its times are %v, want %v", got, want)
	}
	p := system.Place{
		Name: "p", Namespace: "ns", Address: "::", MinDrain: 2 * time.Second, Timeout: 7 * time.Second, Grace: 9 * time.Second,
		Image: "agent:test", Ledger: "/var/lib/lastcall/r1",
	}
	render := func(s *system.System) (all []unstructured.Unstructured, ended string) {
		t.Helper()
		all, nth, err := s.RenderManifests(s.InPod(p))
		if err != nil {
			t.Fatal(err)
		}
		return all, all[nth].GetKind() + "/" + all[nth].GetName()
	}
	all, ended := render(served)
	want, wantEnded := render(reference)
	if ended != wantEnded {
		t.Errorf("%s is ended, want %s", ended, wantEnded)
	}
	is := func(u unstructured.Unstructured) string { return u.GetKind() + "/" + u.GetName() }
	for _, u := range all {
		at := slices.IndexFunc(want, func(w unstructured.Unstructured) bool { return is(w) == is(u) })
		if at < 0 {
			t.Errorf("%s: there is none in the reference", is(u))
			continue
		}
		if is(u) == "DaemonSet/"+alone.Cluster.NodeProxy {
			grace, _, err := unstructured.NestedInt64(u.Object, "spec", "template", "spec", "terminationGracePeriodSeconds")
			if err != nil || grace != 20 {
				t.Errorf("its grace is %d, %v, and not that of its file", grace, err)
			}
			continue
		}
		if diff := cmp.Diff(want[at].Object, u.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", is(u), diff)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d objects, want %d", len(all), len(want))
	}
}
