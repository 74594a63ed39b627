// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads CLOCK_MONOTONIC, which all processes of one boot share.
func Monotonic() time.Duration {
	var ts unix.Timespec
	// The call can't fail for CLOCK_MONOTONIC with a valid pointer.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

// BootID names the boot that Monotonic belongs to.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("the boot ID says whether two clocks are one: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
