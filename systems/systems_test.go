// SPDX-License-Identifier: Apache-2.0

package systems

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// Every file here is what its format wants, with the manifests that it names.
func TestFiles(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%q, %v", paths, err)
	}
	for _, path := range paths {
		if _, err := system.Load(path); err != nil {
			t.Error(err)
		}
	}
}

// The reference gateway's pods are ended by its manager, wherever their ledger goes.
func TestReferenceGatewayAsPods(t *testing.T) {
	sys, err := Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*system.Place){
		"ours":   func(p *system.Place) { p.Ledger = "/var/lib/lastcall/r1" },
		"theirs": func(p *system.Place) { p.Collector, p.CollectorSecret = "collector:7444", "ledger" },
		"broken": func(p *system.Place) { p.Ledger, p.Fault = "/var/lib/lastcall/r1", "no-goaway" },
	} {
		p := sys.InPod(system.Place{
			Address: "0.0.0.0", Backends: []system.Backend{{Name: "backend", Address: "10.0.0.1", HTTP: 8080, TCP: 9090}},
			MinDrain: sys.Drain.MinDrain.D(), Timeout: sys.Drain.Cut(), Grace: sys.Drain.Grace.D(),
			Image: "lastcall.dev/agent:test", Secret: "tls", ConfigMap: "config",
		})
		change(&p)
		all, ended, err := sys.RenderManifests(p)
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(all[ended].Object, &d, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pod := d.Spec.Template.Spec
		if *pod.TerminationGracePeriodSeconds != 30 || len(pod.Containers) != 2 || pod.Containers[0].Name != sys.Cluster.Container {
			t.Errorf("%s: %+v", name, pod)
		}
		own, manager := pod.Containers[0], pod.Containers[1]
		if own.Lifecycle.PreStop.HTTPGet == nil || manager.Lifecycle.PreStop.Exec == nil {
			t.Errorf("%s: the hooks are %+v and %+v", name, own.Lifecycle, manager.Lifecycle)
		}
		args := strings.Join(own.Args, " ")
		if got := strings.Contains(args, "--ledger="); got != (p.Ledger != "") || got == strings.Contains(args, "--collector=") {
			t.Errorf("%s: %s", name, args)
		}
		if !strings.Contains(args, "--admin=127.0.0.1:") || !strings.Contains(strings.Join(manager.Args, " "), "--at-most=25s") {
			t.Errorf("%s: %s; %s", name, args, manager.Args)
		}
		// Each of the three programs looks whether it is its own.
		for _, args := range [][]string{own.Args, manager.Args, manager.Lifecycle.PreStop.Exec.Command} {
			if got := slices.Contains(args, "--fault="+p.Fault); got != (p.Fault != "") {
				t.Errorf("%s: %s", name, args)
			}
		}
	}
}

// Proxies as pods: each with its image, the suite's certificate and configuration, and
// an admin listener that nobody outside of the pod reaches.
func TestProxiesAsPods(t *testing.T) {
	for _, name := range []string{"envoy", "envoy-naive", "haproxy", "haproxy-naive"} {
		sys, err := system.Load(name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := sys.InPod(system.Place{
			Address: "0.0.0.0", Backends: []system.Backend{{Name: "backend", Address: "10.0.0.1", HTTP: 8080, TCP: 9090}},
			MinDrain: sys.Drain.MinDrain.D(), Timeout: sys.Drain.Cut(), Grace: sys.Drain.Grace.D(),
			Image: "lastcall.dev/agent:test", Secret: "tls", ConfigMap: "config",
		})
		files, err := sys.RenderFiles(p)
		if err != nil {
			t.Fatal(err)
		}
		config := files[sys.Host.ConfigName]
		if port, ok := p.Ports["admin"]; ok && !strings.Contains(config, fmt.Sprintf("127.0.0.1:%d", port)) && !strings.Contains(config, fmt.Sprintf(`"127.0.0.1", "port_value": %d`, port)) {
			t.Errorf("%s: its admin port %d is not on the loopback: %s", name, port, config)
		}
		all, ended, err := sys.RenderManifests(p)
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(all[ended].Object, &d, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		own := d.Spec.Template.Spec.Containers[0]
		if own.Name != sys.Cluster.Container || own.Image != sys.Cluster.Images[0] {
			t.Errorf("%s: %s of %s, which is not what cluster has", name, own.Name, own.Image)
		}
		if hooked := own.Lifecycle != nil; hooked == strings.HasSuffix(name, "-naive") {
			t.Errorf("%s: its hooks are %+v", name, own.Lifecycle)
		}
	}
}
