// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestUpRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--k8s 1.20":          `version "1.20" of Kubernetes is not known here: there are 1.34, 1.34.11, 1.35, 1.35.8, 1.36, 1.36.4, 1.37, 1.37.0`,
		"--k8s new":           `version "new" of Kubernetes is not known here`,
		"--k8s new --image x": `version "new" of Kubernetes: write it like 1.34`,
		"--ip 5":              `IP family "5": ipv4, ipv6 and dual are possible`,
		"--kube-proxy foo":    `kube-proxy mode "foo": iptables, nftables and ipvs are possible`,
		"--name=":             "a cluster needs a name",
		"--name A":            "small letters, digits and hyphens",
		"--nodes 0":           "a cluster has one node at least",
		"--nodes 10":          "10 nodes: 1 to 9 are possible",
	} {
		got := lastcall(t, spec.Pass, append([]string{"up"}, strings.Fields(args)...)...)
		if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, want %q in\n%s%s", args, got.code, want, got.stdout, got.stderr)
		}
	}
	for _, args := range []string{"--k8s 1.36", "--ip ipv6", "--kube-proxy nftables", "--image x", "--k8s 1.29 --image x"} {
		if got := lastcall(t, spec.Pass, append([]string{"up"}, strings.Fields(args)...)...); got.code != 0 {
			t.Errorf("%s: exit %d\n%s", args, got.code, got.stderr)
		}
	}
}

func TestRunRefusesClusters(t *testing.T) {
	for args, want := range map[string]string{
		"--kube-proxy foo": `kube-proxy mode "foo": iptables, nftables and ipvs are possible`,
		"--ip 5":           `IP family "5": ipv4, ipv6 and dual are possible`,
		"--name A":         "small letters, digits and hyphens",
		"--stage cluster --kubeconfig f --ip dual":             "--ip belongs to --stage host or kind, and this is --stage cluster",
		"--stage cluster --kubeconfig f --kube-proxy nftables": "--kube-proxy belongs to --stage kind, and this is --stage cluster",
	} {
		got := lastcall(t, spec.Pass, append([]string{"run"}, strings.Fields(args)...)...)
		if got.code != 2 || got.request != nil || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, started %v, want %q in\n%s", args, got.code, got.request != nil, want, got.stderr)
		}
	}
	got := lastcall(t, spec.Pass, "run", "--ip", "ipv6", "--kube-proxy", "nftables")
	if got.request == nil || got.request.IPFamily != "ipv6" || got.request.KubeProxy != "nftables" {
		t.Errorf("%+v", got.request)
	}
	got = lastcall(t, spec.Pass, "run")
	if got.request == nil || got.request.IPFamily != "" || got.request.KubeProxy != "" {
		t.Errorf("by default: %q, %q", got.request.IPFamily, got.request.KubeProxy)
	}
}
