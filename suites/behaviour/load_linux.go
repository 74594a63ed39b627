// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// loadAverage is the machine's one-minute load average: 1.0 is one busy core.
func loadAverage() float64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	const scale = 1 << 16 // sysinfo(2): SI_LOAD_SHIFT
	return float64(info.Loads[0]) / scale
}

// stolen is how much CPU the machine's host has given to others since the boot,
// and of how much, in core seconds; 0 where nobody knows.
func stolen() (seconds, of float64) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, 0
	}
	c := stat.CPUTotal
	return c.Steal, c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal + c.Idle + c.Iowait
}

// busy is how much CPU the machine has used since it booted, in core seconds,
// idling and waiting for disks left out; 0 where nobody knows.
func busy() float64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0
	}
	c := stat.CPUTotal
	return c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
}
