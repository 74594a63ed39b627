// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package timeline

import (
	"fmt"
	"os"
	"time"
)

var started = time.Now()

// Monotonic counts from the start of this process: outside Linux no other
// process shares its clock, so every agent's offset is estimated.
func Monotonic() time.Duration { return time.Since(started) }

// BootID names this process, for the same reason.
func BootID() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("naming this clock: %w", err)
	}
	return fmt.Sprintf("%s/%d/%d", host, os.Getpid(), started.UnixNano()), nil
}
