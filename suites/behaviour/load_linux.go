// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"runtime"

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

// cpuTime is the machine's own account since its boot, in core seconds: what was
// used (idling and waiting for disks left out), what of that its host gave to
// others, and all there was. All are 0 where nobody knows.
func cpuTime() (busy, stolen, all float64) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0, 0
	}
	stat, err := fs.Stat()
	if err != nil {
		return 0, 0, 0
	}
	c := stat.CPUTotal
	busy = c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return busy, c.Steal, busy + c.Idle + c.Iowait
}

// waitedTime is for how long since the machine's boot something that could run waited for a
// processor, in seconds: "some" of /proc/pressure/cpu (Documentation/accounting/psi.rst).
// 0 where the kernel does not say it.
func waitedTime() float64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	stats, err := fs.PSIStatsForResource("cpu")
	if err != nil || stats.Some == nil {
		return 0
	}
	return float64(stats.Some.Total) / 1e6 // from microseconds
}

// ownMachine says whether this process may use all of the machine's processors: what
// others do on those that it may not use is none of its business, and is in cpuTime all
// the same.
func ownMachine() bool {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return false
	}
	stat, err := fs.Stat()
	return err == nil && len(stat.CPU) == runtime.NumCPU()
}
