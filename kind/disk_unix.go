// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package kind

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// leastRoom is what three nodes write in an hour of tests, and some more.
const leastRoom = 5 << 30

// roomFor tells whether a folder's disk has so many bytes free. A folder that is
// not on this machine (an engine in a virtual machine of its own) can't be
// asked, and passes.
func roomFor(dir string, least uint64) error {
	var stat unix.Statfs_t
	err := unix.Statfs(dir, &stat)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("free room at the engine's folder %s: %w", dir, err)
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < least {
		return fmt.Errorf("disk full: %.1f GiB are free at %s and a cluster needs %.1f: make room, for instance with `docker system prune`",
			float64(free)/(1<<30), dir, float64(least)/(1<<30))
	}
	return nil
}
