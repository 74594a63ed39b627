// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// kernelHasIPVS tells why kube-proxy's mode ipvs can't work on the kernel whose
// root file system is given; nil if it can. Nodes share the host's kernel and may
// not load modules into it, and kube-proxy ends at once where IPVS is missing. So
// it must be there before: nothing is loaded here, that is for who owns the machine.
func kernelHasIPVS(root fs.FS) error {
	// The kernel's own file, whether it is built in or a module that is loaded.
	_, err := fs.Stat(root, "proc/net/ip_vs")
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kube-proxy mode %s: whether this kernel has IPVS is not to be seen: %w", IPVS, err)
	}
	release, err := fs.ReadFile(root, "proc/sys/kernel/osrelease")
	if err != nil {
		return fmt.Errorf("kube-proxy mode %s: there is no Linux kernel here that could have IPVS: use %s or %s", IPVS, IPTables, NFTables)
	}
	kernel := strings.TrimSpace(string(release))
	if hasModule(root, kernel, "ip_vs") {
		return fmt.Errorf("kube-proxy mode %s: IPVS is a module of this kernel (%s) that is not loaded: `modprobe ip_vs` as root first, or use %s or %s", IPVS, kernel, IPTables, NFTables)
	}
	return fmt.Errorf("kube-proxy mode %s: this kernel (%s) has no IPVS, neither loaded (/proc/net/ip_vs) nor as a module (/lib/modules/%s/modules.dep): use %s or %s", IPVS, kernel, kernel, IPTables, NFTables)
}

// hasModule tells whether modprobe would find a module. modules.dep(5): each line
// begins with a module's file name and a colon; the file may be compressed.
func hasModule(root fs.FS, kernel, name string) bool {
	content, err := fs.ReadFile(root, path.Join("lib/modules", kernel, "modules.dep"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		file, _, _ := strings.Cut(line, ":")
		if module, _, ok := strings.Cut(path.Base(file), ".ko"); ok && module == name {
			return true
		}
	}
	return false
}
