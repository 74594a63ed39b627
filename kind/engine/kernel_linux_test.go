// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissingCgroups(t *testing.T) {
	const enabled = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t1\t1\nmemory\t4\t8\t1\ndevices\t5\t1\t1\npids\t8\t1\t0\n"
	for _, test := range []struct {
		name, mounts string
		want         []string
	}{
		{name: "unified", mounts: "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"},
		{
			name:   "nothing mounted: what the kernel has",
			mounts: "proc /proc proc rw 0 0\n",
			want:   []string{"cpu", "memory", "devices", "name=systemd"},
		},
		{
			name:   "some mounted, two of them together",
			mounts: "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\ncgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
			want:   []string{"memory", "devices"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, missingCgroups(test.mounts, enabled)); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}
