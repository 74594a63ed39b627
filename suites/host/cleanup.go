// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// folders begins the names of the runs' folders, which go on with the process ID
// of the run.
const folders = "lastcall-host-"

// newFolder makes a folder for the instances of a run.
func newFolder() (string, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", folders, os.Getpid()))
	if err != nil {
		return "", fmt.Errorf("a folder for the instances: %w", err)
	}
	return dir, nil
}

// Cleanup removes the folders of runs that were killed, and names them. Their
// processes died with them.
func Cleanup() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(os.TempDir(), folders+"*"))
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, dir := range all {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), folders), "-")
		n, err := strconv.Atoi(pid)
		// Signal 0 reaches a process that is there, or may not be signalled.
		if err != nil || !errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, "folder "+dir)
	}
	return removed, errors.Join(errs...)
}
