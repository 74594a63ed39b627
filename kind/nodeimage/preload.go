// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// podnetImage is our pod network's image; it exists in node images only.
const podnetImage = "lastcall.dev/podnet:node"

const preloadRevision = "preload/3"

// storeDirs of containerd's root hold the images and their names. The others are made
// anew by each node; one of them holds an identity that nodes must not share.
var storeDirs = []string{"io.containerd.content.v1.content", "io.containerd.metadata.v1.bolt"}

// components gives the images that kubeadm and our manifests ask for, each from
// scratch with one program in it.
func components(v Versions, in map[string]string) ([]component, error) {
	one := func(reference, path, from string, entrypoint ...string) component {
		// Compressed: each node copies all images into its own volume but unpacks few.
		return component{reference: reference, entrypoint: entrypoint, compressed: true, fill: func(t *tarball) error {
			t.file(path, 0o755, from)
			return nil
		}}
	}
	var out []component
	for _, reference := range kubernetesImages(v) {
		_, rest, _ := strings.Cut(reference, "/")
		name, _, _ := strings.Cut(rest, ":")
		from := filepath.Join(in[stepKubernetes], name)
		if name != "kube-proxy" {
			out = append(out, one(reference, "usr/local/bin/"+name, from))
			continue
		}
		fill, err := kubeProxy(in[stepRoot], from)
		if err != nil {
			return nil, err
		}
		out = append(out, component{reference: reference, compressed: true, fill: fill})
	}
	return append(out,
		one("registry.k8s.io/etcd:"+v.Etcd, "usr/local/bin/etcd", filepath.Join(in[stepEtcd], "etcd")),
		one("registry.k8s.io/coredns/coredns:"+v.CoreDNS, "coredns", filepath.Join(in[stepCoreDNS], "coredns"), "/coredns"),
		one("registry.k8s.io/pause:"+v.Pause, "pause", filepath.Join(in[stepPause], "pause"), "/pause"),
		one(podnetImage, "podnet", filepath.Join(in[stepPodnet], "podnet"), "/podnet"),
	), nil
}

// kubeProxy needs the programs that write packet filter rules, and what these need:
// taken out of the node's root one by one, because each node unpacks this image.
func kubeProxy(root, binary string) (func(*tarball) error, error) {
	programs := []string{
		"/usr/sbin/xtables-nft-multi", "/usr/sbin/xtables-legacy-multi", "/usr/sbin/nft", "/usr/sbin/conntrack", "/usr/sbin/ipset",
		"/usr/bin/dash", "/usr/bin/grep", "/usr/bin/ln",
	}
	plugins, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*/xtables/*.so"))
	if err != nil {
		return nil, err
	}
	if len(plugins) == 0 {
		return nil, errors.New("kube-proxy's image: the root has no extensions of iptables")
	}
	for _, p := range plugins {
		info, err := os.Lstat(p)
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			programs = append(programs, strings.TrimPrefix(p, root))
		}
	}
	files, err := closure(root, programs)
	if err != nil {
		return nil, err
	}
	script, err := embedded.ReadFile("kubeproxy/kube-proxy.sh")
	if err != nil {
		return nil, err
	}
	return func(t *tarball) error {
		for _, f := range []string{"bin", "sbin", "lib", "lib64"} {
			t.link(f, "usr/"+f)
		}
		for _, f := range files {
			t.file(merged(f), 0o755, inRoot(root, f))
		}
		for _, p := range plugins {
			if target, err := os.Readlink(p); err == nil {
				t.link(strings.TrimPrefix(p, root), target)
			}
		}
		t.link("usr/bin/sh", "dash")
		for _, flavour := range []string{"nft", "legacy"} {
			for _, f := range []string{"iptables", "ip6tables"} {
				for _, verb := range []string{"", "-save", "-restore"} {
					t.link("usr/sbin/"+f+"-"+flavour+verb, "xtables-"+flavour+"-multi")
				}
			}
		}
		// Names of protocols and ports, which nft looks up.
		for _, f := range []string{"etc/protocols", "etc/services"} {
			t.file(f, 0o644, filepath.Join(root, f))
		}
		t.directory("run", 0o755)
		t.directory("tmp", 0o1777)
		t.file("usr/local/bin/kube-proxy.real", 0o755, binary)
		t.text("usr/local/bin/kube-proxy", 0o755, string(script))
		return nil
	}, nil
}

// preload imports the component images into a fresh containerd store. It runs the
// node's own containerd on this machine, with all its folders inside dir, and asks it
// only to store: nothing is unpacked or started, so that no container is needed.
func preload(ctx context.Context, dir string, v Versions, arch string, in map[string]string) (err error) {
	images, err := components(v, in)
	if err != nil {
		return err
	}
	work := filepath.Dir(dir)
	bin := in[stepContainerd]
	// A Unix socket's path must be shorter than 108 bytes, whatever the cache's path is.
	run, err := os.MkdirTemp("", "lastcall-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(run)) }()
	socket := filepath.Join(run, "c.sock")
	config := filepath.Join(work, "containerd.toml")
	if err := os.WriteFile(config, []byte(storeOnly), 0o644); err != nil {
		return err
	}
	log := &tail{limit: tailBytes}
	daemon := exec.CommandContext(ctx, filepath.Join(bin, "containerd"), "--config", config,
		"--root", dir, "--state", filepath.Join(run, "state"), "--address", socket)
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	daemon.WaitDelay = 10 * time.Second
	if err := daemon.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = daemon.Wait() // that it ended before it was told to is seen by ctr failing
		close(ended)
	}()
	defer func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		<-ended
		if err != nil {
			err = fmt.Errorf("%w\ncontainerd said: %s", err, log)
		}
	}()
	if err := answers(ctx, ended, bin, socket); err != nil {
		return err
	}
	for i, image := range images {
		path := filepath.Join(work, fmt.Sprintf("image-%d.tar", i))
		if err := image.archive(path, arch); err != nil {
			return err
		}
		if err := (command{}).run(ctx, filepath.Join(bin, "ctr"), "--address", socket, "--namespace", "k8s.io",
			// The kubelet's image garbage collector leaves pinned images alone.
			"images", "import", "--label=io.cri-containerd.pinned=pinned", "--all-platforms", "--no-unpack", path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// storeOnly leaves out the part of containerd that runs pods: here it would look for
// CNI plugins and cgroups of this machine.
const storeOnly = `version = 3
disabled_plugins = [
  "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images",
  "io.containerd.nri.v1.nri", "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.internal.v1.restart",
]
`

// answers waits until containerd serves, 30 s at most.
func answers(ctx context.Context, ended <-chan struct{}, bin, socket string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("containerd did not answer within 30 s"))
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = (command{}).run(ctx, filepath.Join(bin, "ctr"), "--address", socket, "--connect-timeout", "2s", "version"); last == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("containerd ended at once")
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}
