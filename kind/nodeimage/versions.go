// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Versions says what goes into one node image. Everything that the image holds
// follows from it and from the files embedded in this package.
type Versions struct {
	Kubernetes string // module version of k8s.io/kubernetes, "v1.34.4"
	Etcd       string // image tag in kubeadm's constants, "3.6.5-0"
	CoreDNS    string // image tag in kubeadm's constants and module version, "v1.12.1"
	Pause      string // image tag in kubeadm's constants, "3.10.1"
	Containerd string // module version, "v2.2.1"
	CNIPlugins string // module version, "v1.9.1"
	Kind       string // module version whose images/base/files are used, "v0.33.0"
}

// table has one row for each Kubernetes minor. Etcd, CoreDNS and Pause must be
// what `kubeadm config images list` of that version prints, or kubeadm looks
// for images that the node does not have (k8s.io/kubernetes,
// cmd/kubeadm/app/constants/constants.go: DefaultEtcdVersion, CoreDNSVersion,
// PauseVersion). v1.36 and later need Go 1.26 to be built.
var table = []Versions{
	row("v1.34.4", "3.6.5-0", "v1.12.1", "3.10.1"),
	row("v1.35.4", "3.6.6-0", "v1.13.1", "3.10.1"),
	row("v1.36.3", "3.6.8-0", "v1.14.2", "3.10.2"),
	row("v1.37.2", "3.7.0-0", "v1.14.6", "3.10.2"),
}

// row is a set of versions with what no Kubernetes version decides: CNI 1.1 takes
// containerd 2 and plugins 1.9, whichever kubelet asks them.
func row(kubernetes, etcd, coreDNS, pause string) Versions {
	return Versions{
		Kubernetes: kubernetes, Etcd: etcd, CoreDNS: coreDNS, Pause: pause,
		Containerd: "v2.2.1", CNIPlugins: "v1.9.1", Kind: "v0.33.0",
	}
}

// Supported lists the Kubernetes minors that can be built, oldest first: ["1.34", ...].
func Supported() []string {
	out := make([]string, 0, len(table))
	for _, v := range table {
		out = append(out, v.Minor())
	}
	return out
}

// Minor is the Kubernetes minor without "v": "1.34".
func (v Versions) Minor() string {
	parts := strings.SplitN(strings.TrimPrefix(v.Kubernetes, "v"), ".", 3)
	if len(parts) < 2 {
		return v.Kubernetes
	}
	return parts[0] + "." + parts[1]
}

// Resolve finds the row for "1.34", "v1.34", "1.34.4" or "v1.34.4". Another
// patch release of a known minor is an error too: nobody tried it.
func Resolve(version string) (Versions, error) {
	want := strings.TrimPrefix(strings.TrimSpace(version), "v")
	for _, v := range table {
		if want == v.Minor() || want == strings.TrimPrefix(v.Kubernetes, "v") {
			return v, nil
		}
	}
	known := make([]string, 0, len(table))
	for _, v := range table {
		known = append(known, fmt.Sprintf("%s (%s)", v.Minor(), v.Kubernetes))
	}
	return Versions{}, fmt.Errorf("no node image is known for Kubernetes %q; known: %s", version, strings.Join(known, ", "))
}

var moduleVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// check refuses what would end up in a go.mod or a path without being a version.
func (v Versions) check() error {
	for _, f := range []struct{ name, value string }{
		{"Kubernetes", v.Kubernetes}, {"Etcd", v.etcdModule()}, {"CoreDNS", v.CoreDNS},
		{"Containerd", v.Containerd}, {"CNIPlugins", v.CNIPlugins}, {"Kind", v.Kind}, {"Pause", "v" + v.Pause},
	} {
		if !moduleVersion.MatchString(f.value) {
			return fmt.Errorf("versions: %s %q is not a version; take them from nodeimage.Resolve (known: %s)",
				f.name, f.value, strings.Join(Supported(), ", "))
		}
	}
	return nil
}

// etcdModule turns the image tag "3.6.5-0" into the module version "v3.6.5".
func (v Versions) etcdModule() string {
	number, _, _ := strings.Cut(v.Etcd, "-")
	return "v" + number
}

// Repository is the name of all our node images.
const Repository = "lastcall.dev/node"

// Reference names the image of these versions: lastcall.dev/node:v1.34.4-<12 hex>.
// The hex digits are of the hash of all inputs: versions, architecture, package
// list, and the files embedded here, so that a changed input is another image.
// The Go toolchain is not among them: the same sources give the same node,
// whichever toolchain built it.
func Reference(v Versions) string {
	return reference(v, runtime.GOARCH)
}

func reference(v Versions, arch string) string {
	steps := plan(v, arch)
	keys := keysOf(steps)
	return Repository + ":" + v.Kubernetes + "-" + keys[steps[len(steps)-1].name][:12]
}

func imagesOf(v Versions) []string {
	return slices.Concat(kubernetesImages(v), []string{
		"registry.k8s.io/etcd:" + v.Etcd,
		"registry.k8s.io/coredns/coredns:" + v.CoreDNS,
		"registry.k8s.io/pause:" + v.Pause,
		podnetImage,
	})
}

func kubernetesImages(v Versions) []string {
	var out []string
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		out = append(out, "registry.k8s.io/"+name+":"+v.Kubernetes)
	}
	return out
}
