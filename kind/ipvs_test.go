// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestKernelHasIPVS(t *testing.T) {
	const dep = "lib/modules/6.1.0/modules.dep"
	for name, test := range map[string]struct {
		files map[string]string
		want  string // part of the error; "" for none
	}{
		"loaded, or built in": {map[string]string{"proc/net/ip_vs": "IP Virtual Server version 1.2.1 (size=4096)\n"}, ""},
		"a module": {
			map[string]string{"proc/sys/kernel/osrelease": "6.1.0\n", dep: "kernel/a/x.ko: \nkernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/net/netfilter/nf_conntrack.ko.xz\n"},
			"`modprobe ip_vs` as root first, or use iptables or nftables",
		},
		"its schedulers alone": {
			map[string]string{"proc/sys/kernel/osrelease": "6.1.0\n", dep: "kernel/net/netfilter/ipvs/ip_vs_rr.ko: kernel/net/netfilter/ipvs/ip_vs.ko\n"},
			"this kernel (6.1.0) has no IPVS",
		},
		"another kernel's module": {
			map[string]string{"proc/sys/kernel/osrelease": "6.2.0\n", dep: "kernel/net/netfilter/ipvs/ip_vs.ko: \n"},
			"nor as a module (/lib/modules/6.2.0/modules.dep)",
		},
		"a kernel without modules": {map[string]string{"proc/sys/kernel/osrelease": "6.1.0\n"}, "has no IPVS"},
		"no Linux":                 {nil, "no Linux kernel here"},
	} {
		root := fstest.MapFS{}
		for path, content := range test.files {
			root[path] = &fstest.MapFile{Data: []byte(content)}
		}
		err := kernelHasIPVS(root)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}
