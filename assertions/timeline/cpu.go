// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is what this process has used since its start, in user and kernel:
// what events of kind CPU tell.
func CPUTime() (time.Duration, error) {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}
