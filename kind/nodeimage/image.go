// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const imageRevision = "image/5"

// ShutdownGrace is how long a node of this image can hold its shutdown up for its
// pods: what the kubelet's shutdownGracePeriod may be.
const ShutdownGrace = 40 * time.Second

// nodeImage gives docker the node's image. Its settings are those of the last lines of
// kind's Dockerfile: systemd knows that it is in a container, and ends at SIGRTMIN+3
// only. work is for large temporary files.
func nodeImage(ctx context.Context, docker, reference, work, arch string, v Versions, in map[string]string) error {
	spec, err := command{}.output(ctx, filepath.Join(in[stepContainerd], "ctr"), "oci", "spec")
	if err != nil {
		return err
	}
	base, err := baseSpec(spec)
	if err != nil {
		return err
	}
	path := filepath.Join(work, "node.tar")
	image := component{
		reference:  reference,
		entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
		env:        []string{"container=docker"},
		stopSignal: "SIGRTMIN+3",
		fill:       func(t *tarball) error { return nodeRoot(ctx, t, v, base, in) },
	}
	if err := image.archive(path, arch); err != nil {
		return err
	}
	return command{}.run(ctx, docker, "load", "--quiet", "--input", path)
}

// nodeRoot writes the node's root file system: Debian's root, kind's files over it,
// and the programs, as kind's Dockerfile and node image builder would arrange them.
func nodeRoot(ctx context.Context, t *tarball, v Versions, baseSpec string, in map[string]string) error {
	if err := appendRoot(ctx, t, in[stepRoot]); err != nil {
		return err
	}
	base := in[stepBase]
	original, err := os.ReadFile(filepath.Join(base, "etc/containerd/config.toml"))
	if err != nil {
		return err
	}
	config, err := containerdConfig(string(original), v)
	if err != nil {
		return err
	}
	t.text("etc/containerd/config.toml", 0o644, config)
	t.tree("", base, func(path string) int64 {
		if strings.HasPrefix(path, "usr/local/bin/") || strings.HasPrefix(path, "kind/bin/") {
			return 0o755
		}
		return 0o644
	})
	t.text("etc/containerd/cri-base.json", 0o644, baseSpec)

	for _, service := range []string{"kubelet", "containerd", "undo-mount-hacks"} {
		t.link("etc/systemd/system/multi-user.target.wants/"+service+".service", "/etc/systemd/system/"+service+".service")
	}
	// binfmt_misc belongs to the whole kernel, the host's programs too.
	t.link("etc/systemd/system/systemd-binfmt.service", "/dev/null")
	t.directory("etc/kubernetes/manifests", 0o755)
	t.text("etc/sysctl.d/50-podnet.conf", 0o644, sysctl)
	t.text("etc/systemd/logind.conf.d/50-node.conf", 0o644, logind())

	for _, name := range kubernetesBinaries {
		t.file("usr/bin/"+name, 0o755, filepath.Join(in[stepKubernetes], name))
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		t.file("usr/local/bin/"+name, 0o755, filepath.Join(in[stepContainerd], name))
	}
	for _, step := range []string{stepPlugins, stepUnique} {
		t.tree("opt/cni/bin", in[step], func(string) int64 { return 0o755 })
	}
	for _, store := range storeDirs {
		t.tree("var/lib/containerd/"+store, filepath.Join(in[stepPreload], store), func(string) int64 { return 0o644 })
	}

	t.text("kind/version", 0o644, v.Kubernetes)
	manifests, err := renderManifests()
	if err != nil {
		return err
	}
	for _, name := range sorted(manifests) {
		t.text("kind/manifests/"+name, 0o644, manifests[name])
	}
	return nil
}

// sysctl for all links made after start, which are the pods'. A pod that reaches itself
// through a Service would be sent redirects; the kernel counts them in the same bucket as
// its answers for unreachable addresses, so that dials to the dead would run into their
// timeout instead of being told. The node's end of a pod's link has its address at once, as the pod has (unique); "-" is for
// kernels without IPv6.
const sysctl = "net.ipv4.conf.all.send_redirects=0\nnet.ipv4.conf.default.send_redirects=0\n-net.ipv6.conf.default.accept_dad=0\n"

// logind gives the kubelet its time from the start. Else the kubelet writes such a
// file itself, has logind read it, and asks for the outcome at once: before 1.36 it
// gives the shutdown up for good where logind has not come round to it yet
// (pkg/kubelet/nodeshutdown, managerImpl.start: "The ReloadLogindConf call is
// asynchronous").
func logind() string {
	return fmt.Sprintf("[Login]\nInhibitDelayMaxSec=%.0f\n", ShutdownGrace.Seconds())
}

// appendRoot packs Debian's root with the machine's tar, which knows owners, links and
// device nodes.
func appendRoot(ctx context.Context, t *tarball, root string) error {
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := command{stdout: writer}.run(ctx, "tar", "--create", "--numeric-owner", "--one-file-system",
			"--sort=name", "--directory", root, ".")
		writer.CloseWithError(err)
		done <- err
	}()
	t.append(reader)
	if t.err == nil {
		// tar pads its archive after the last entry.
		_, t.err = io.Copy(io.Discard, reader)
	}
	reader.CloseWithError(t.err)
	if err := <-done; err != nil && t.err == nil {
		return err
	}
	return t.err
}

// renderManifests gives what kind applies, by file name in /kind/manifests.
func renderManifests() (map[string]string, error) {
	out := map[string]string{}
	for _, name := range []string{"default-cni.yaml", "default-storage.yaml"} {
		content, err := embedded.ReadFile("manifests/" + name)
		if err != nil {
			return nil, err
		}
		out[name] = strings.ReplaceAll(string(content), "PODNET_IMAGE", podnetImage)
	}
	return out, nil
}

// containerdConfig changes kind's configuration in two lines: the sandbox image is the
// one that kubeadm and the preloaded store know, and a container's oom_score_adj is
// never set below containerd's own, which a node without CAP_SYS_RESOURCE may not do.
// Where containerd has its -999, the second changes nothing.
func containerdConfig(original string, v Versions) (string, error) {
	lines := strings.Split(original, "\n")
	var sandbox, oom int
	for i, line := range lines {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "sandbox_image"):
			lines[i] = fmt.Sprintf("  sandbox_image = %q", "registry.k8s.io/pause:"+v.Pause)
			sandbox++
		case strings.HasPrefix(trimmed, "restrict_oom_score_adj"):
			lines[i] = "  restrict_oom_score_adj = true"
			oom++
		}
	}
	if sandbox != 1 || oom != 1 {
		return "", fmt.Errorf("containerd configuration of kind %s: sandbox_image set %d times and restrict_oom_score_adj %d times, expected once each", v.Kind, sandbox, oom)
	}
	return strings.Join(lines, "\n"), nil
}

// baseSpec changes containerd's default container as kind's Dockerfile does: a hook
// hides the host's product name and serial number, and limits are the node's own.
func baseSpec(spec string) (string, error) {
	var s map[string]any
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return "", fmt.Errorf("what ctr oci spec printed: %w", err)
	}
	process, ok := s["process"].(map[string]any)
	if !ok {
		return "", errors.New("what ctr oci spec printed has no process")
	}
	delete(process, "rlimits")
	s["hooks"] = map[string]any{
		"createContainer": []map[string]string{{"path": "/kind/bin/mount-product-files.sh"}},
	}
	out, err := json.MarshalIndent(s, "", "  ")
	return string(out), err
}
