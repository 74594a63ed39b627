// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// What the image holds of ours. Listed one by one, because a test file must not
// change the image.
//
//go:embed podnet/conflist.go podnet/main.go podnet/routes.go podnet/services.go
//go:embed pause/main.go unique/main.go _coredns/main.go
//go:embed manifests/default-cni.yaml manifests/default-storage.yaml kubeproxy/kube-proxy.sh
var embedded embed.FS

// podnetModules are what podnet is built with, apart from the modules that this
// module itself is built with: it must come out the same from a released binary,
// which has no go.mod beside it.
var podnetModules = []module.Version{
	{Path: "k8s.io/client-go", Version: "v0.37.2"},
	{Path: "k8s.io/api", Version: "v0.37.2"},
	{Path: "k8s.io/apimachinery", Version: "v0.37.2"},
	{Path: "github.com/vishvananda/netlink", Version: "v1.3.1"},
	{Path: "golang.org/x/sys", Version: "v0.49.0"},
}

// uniqueModules are what unique is built with.
var uniqueModules = []module.Version{
	{Path: "github.com/containernetworking/cni", Version: "v1.3.0"},
	{Path: "golang.org/x/sys", Version: "v0.49.0"},
}

// Names of steps, for those that are needed by others.
const (
	stepKubernetes = "kubernetes"
	stepEtcd       = "etcd"
	stepCoreDNS    = "coredns"
	stepContainerd = "containerd"
	stepPlugins    = "cni-plugins"
	stepPodnet     = "podnet"
	stepUnique     = "unique"
	stepPause      = "pause"
	stepBase       = "kind-base"
	stepRoot       = "root"
	stepPreload    = "preload"
	stepImage      = "image"
)

// plan lists the steps that lead to the image, the longest first among those that
// need nothing. The last step has no build yet: it ends in docker, which Build knows.
func plan(v Versions, arch string) []step {
	programs := []struct {
		p     program
		title string
	}{
		{kubernetesProgram(v), "kubernetes " + v.Kubernetes},
		{program{
			name: stepCoreDNS, require: []module.Version{{Path: "github.com/coredns/coredns", Version: v.CoreDNS}},
			packages: map[string]string{".": "coredns"}, sources: sub("_coredns"),
		}, "coredns " + v.CoreDNS},
		{program{
			name: stepContainerd, require: []module.Version{{Path: containerdModule, Version: v.Containerd}},
			packages: map[string]string{
				containerdModule + "/cmd/containerd":              "containerd",
				containerdModule + "/cmd/containerd-shim-runc-v2": "containerd-shim-runc-v2",
				containerdModule + "/cmd/ctr":                     "ctr",
			},
			// The snapshotters that need C libraries or that no node selects.
			tags: "no_btrfs,no_devmapper,no_zfs,no_aufs",
			vars: []string{containerdModule + "/version.Version=" + v.Containerd},
		}, "containerd " + v.Containerd},
		{program{
			name: stepEtcd, require: []module.Version{{Path: "go.etcd.io/etcd/server/v3", Version: v.etcdModule()}},
			packages: map[string]string{"go.etcd.io/etcd/server/v3": "etcd"},
		}, "etcd " + v.Etcd},
		{program{
			name: stepPlugins, require: []module.Version{{Path: pluginsModule, Version: v.CNIPlugins}},
			packages: map[string]string{
				pluginsModule + "/plugins/main/ptp":        "ptp",
				pluginsModule + "/plugins/main/loopback":   "loopback",
				pluginsModule + "/plugins/ipam/host-local": "host-local",
				pluginsModule + "/plugins/meta/portmap":    "portmap",
			},
			vars: []string{pluginsModule + "/pkg/utils/buildversion.BuildVersion=" + v.CNIPlugins},
		}, "cni plugins " + v.CNIPlugins},
		{program{
			name: stepPodnet, require: podnetModules,
			packages: map[string]string{".": "podnet"}, sources: sub("podnet"),
		}, "podnet"},
		{program{
			name: stepUnique, require: uniqueModules, packages: map[string]string{".": "unique"}, sources: sub("unique"),
		}, "unique"},
		{program{
			name: stepPause, packages: map[string]string{".": "pause"}, sources: sub("pause"),
		}, "pause " + v.Pause},
	}
	steps := []step{{
		name: stepRoot, title: "debian root", inputs: slices.Concat([]string{rootRevision, arch, suite}, packages, dropped),
		build: func(ctx context.Context, dir string, _ map[string]string) error {
			// dir is <cache>/tmp-x/out: packages are kept beside the steps' directories.
			return root(ctx, dir, filepath.Join(filepath.Dir(filepath.Dir(dir)), "debs"))
		},
	}}
	for _, b := range programs {
		p := b.p
		inputs := p.inputs(arch)
		if p.sources != nil {
			inputs = append(inputs, digest(p.sources))
		}
		steps = append(steps, step{
			name: p.name, title: b.title, inputs: inputs,
			build: func(ctx context.Context, dir string, _ map[string]string) error {
				return p.build(ctx, dir, arch)
			},
		})
	}
	// The longest build first, beside it what waits for the network and the disk.
	steps[0], steps[1] = steps[1], steps[0]
	return append(steps,
		step{
			name: stepBase, title: "kind base files " + v.Kind, inputs: []string{"kind-base/1", v.Kind},
			build: func(ctx context.Context, dir string, _ map[string]string) error {
				return kindBase(ctx, dir, v.Kind, arch)
			},
		},
		step{
			name: stepPreload, title: "component images",
			inputs: append([]string{preloadRevision, arch, digest(sub("kubeproxy"))}, imagesOf(v)...),
			needs:  []string{stepKubernetes, stepEtcd, stepCoreDNS, stepPause, stepPodnet, stepContainerd, stepRoot},
			build: func(ctx context.Context, dir string, in map[string]string) error {
				return preload(ctx, dir, v, arch, in)
			},
		},
		step{
			name: stepImage, title: "node image",
			inputs: []string{imageRevision, v.Kubernetes, v.Pause, logind(), digest(sub("manifests"))},
			needs:  []string{stepKubernetes, stepContainerd, stepPlugins, stepUnique, stepBase, stepRoot, stepPreload},
		},
	)
}

const (
	containerdModule = "github.com/containerd/containerd/v2"
	pluginsModule    = "github.com/containernetworking/plugins"
)

// kubernetesBinaries in /usr/bin of the node; those of kubernetesImages live in images
// only.
var kubernetesBinaries = []string{"kubeadm", "kubelet", "kubectl"}

func kubernetesProgram(v Versions) program {
	p := program{
		name:     stepKubernetes,
		require:  []module.Version{{Path: "k8s.io/kubernetes", Version: v.Kubernetes}},
		packages: map[string]string{},
	}
	for _, name := range slices.Concat(kubernetesBinaries,
		[]string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"}) {
		p.packages["k8s.io/kubernetes/cmd/"+name] = name
	}
	major, minor, _ := strings.Cut(v.Minor(), ".")
	const pkg = "k8s.io/component-base/version."
	p.vars = []string{pkg + "gitVersion=" + v.Kubernetes, pkg + "gitMajor=" + major, pkg + "gitMinor=" + minor}
	return p
}

// sub is one folder of the embedded files, which exists: it is named above.
func sub(folder string) fs.FS {
	out, err := fs.Sub(embedded, folder)
	if err != nil {
		panic("nodeimage: embedded folder " + folder + ": " + err.Error())
	}
	return out
}

// digest of the names and contents of all files.
func digest(files fs.FS) string {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		one := sha256.Sum256(content)
		_, err = sum.Write(append([]byte(path+"\x00"), one[:]...))
		return err
	})
	if err != nil {
		panic("nodeimage: embedded files can't be read: " + err.Error())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// kindBase copies the files that kind puts over the root of its own base image.
func kindBase(ctx context.Context, dir, version, arch string) error {
	goCommand, err := inModule(dir, arch)
	if err != nil {
		return err
	}
	mod, err := download(ctx, goCommand, module.Version{Path: "sigs.k8s.io/kind", Version: version})
	if err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(filepath.Join(mod.Dir, "images", "base", "files")))
}
