// SPDX-License-Identifier: Apache-2.0

package behaviour

import "golang.org/x/sys/unix"

// loadAverage is the machine's one-minute load average: 1.0 is one busy core.
func loadAverage() float64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	const scale = 1 << 16 // sysinfo(2): SI_LOAD_SHIFT
	return float64(info.Loads[0]) / scale
}
