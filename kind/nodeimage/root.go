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
)

// suite of Debian on which the node stands: its systemd 252 still runs on cgroup v1
// hosts, later ones refuse.
const suite = "bookworm"

// packages on top of debootstrap's minbase. systemd brings logind, dbus is how the
// kubelet asks it for its inhibitor lock; the bus starts both when they are first
// asked for. kube-proxy's mode ipvs needs ipset.
var packages = []string{
	"systemd", "systemd-sysv", "dbus",
	"conntrack", "ipset", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod", "libseccomp2",
	"bash", "ca-certificates", "curl", "jq", "procps", "runc", "socat",
}

const rootRevision = "root/1"

// root makes the node's Debian, as files, with debootstrap. Downloaded packages are
// kept in debs for the next time.
func root(ctx context.Context, dir, debs string) error {
	if err := needDebootstrap(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return err
	}
	// A mount namespace of its own, because a killed debootstrap leaves /proc mounted
	// in the half-made root, and then nobody can remove it.
	args := []string{
		"--mount", "debootstrap", "--variant=minbase", "--cache-dir=" + debs,
		"--include=" + strings.Join(packages, ","), suite, dir,
	}
	if err := (command{env: []string{"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}}).run(ctx, "unshare", args...); err != nil {
		// debootstrap's own log says more than its output.
		log, _ := os.ReadFile(filepath.Join(dir, "debootstrap", "debootstrap.log"))
		last := tail{limit: tailBytes}
		_, _ = last.Write(log)
		return fmt.Errorf("%w\ndebootstrap.log: %s", err, &last)
	}
	return trim(dir)
}

// needDebootstrap finds debootstrap, or installs it where that is ours to do.
func needDebootstrap(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("building the node's root file system needs root (debootstrap unpacks device nodes and owners): run as root, or use a node image from a registry")
	}
	if _, err := exec.LookPath("debootstrap"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("debootstrap is missing and there is no apt-get to install it: the node image is built on Debian; elsewhere install debootstrap, or use a node image from a registry")
	}
	env := command{env: []string{"DEBIAN_FRONTEND=noninteractive"}}
	install := []string{"install", "--yes", "--no-install-recommends", "debootstrap"}
	if env.run(ctx, "apt-get", install...) == nil {
		return nil
	}
	// The package lists may be absent or old.
	if err := env.run(ctx, "apt-get", "update"); err != nil {
		return fmt.Errorf("install debootstrap: %w", err)
	}
	if err := env.run(ctx, "apt-get", install...); err != nil {
		return fmt.Errorf("install debootstrap: %w", err)
	}
	return nil
}

// dropped from the root: what no node reads, and the units that the Dockerfile of
// kind's base image removes because they fight with the host.
var dropped = []string{
	"usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*", "usr/share/info/*",
	"var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*",
	"usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
	"usr/lib/systemd/system/multi-user.target.wants/*",
	"etc/systemd/system/*.wants/*",
	"usr/lib/systemd/system/local-fs.target.wants/*",
	"usr/lib/systemd/system/sockets.target.wants/*udev*",
	"usr/lib/systemd/system/sockets.target.wants/*initctl*",
	"usr/lib/systemd/system/basic.target.wants/*",
	"etc/machine-id", "etc/hostname", "etc/resolv.conf",
}

func trim(target string) error {
	for _, pattern := range dropped {
		found, err := filepath.Glob(filepath.Join(target, pattern))
		if err != nil {
			return err
		}
		for _, f := range found {
			if err := os.RemoveAll(f); err != nil {
				return err
			}
		}
	}
	// Kernel messages of the host would confuse whoever reads a node's journal.
	conf, err := os.OpenFile(filepath.Join(target, "etc/systemd/journald.conf"), os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = conf.WriteString("ReadKMsg=no\n")
	return errors.Join(err, conf.Close())
}
