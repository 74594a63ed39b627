// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/host"
)

// folders begins the names of the runs' folders, which go on with the process ID
// of the run.
const folders = "lastcall-host-"

// lockFile, in a run's folder, is locked as long as the run lives: flock(2) ends with its
// process, however that ends, and no other process can have it by the same number.
const lockFile = "run.lock"

// endBudget bounds the end of the processes that one run left.
const endBudget = 10 * time.Second

// newFolder makes a folder for the instances of a run, which is the run's until the lock
// is closed.
func newFolder() (dir string, lock *os.File, err error) {
	dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", folders, os.Getpid()))
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("a folder for the instances: %w", err)
	}
	// It has its name when it is locked: nobody finds one that is not.
	path := filepath.Join(dir, lockFile)
	lock, err = os.OpenFile(path+".new", os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), os.Rename(path+".new", path))
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the folder of the instances: %w", err), os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// Cleanup ends the processes of runs that were killed, as far as they didn't die with
// them, removes the folders of such runs, and names both. A run that lives keeps its own.
func Cleanup(ctx context.Context) ([]string, error) {
	dirs, err := known()
	removed, errs := remove(ctx, dirs)
	return removed, errors.Join(err, errs)
}

// known are the folders of all runs, dead or alive. A folder may be elsewhere ($TMPDIR), or
// removed by hand: the processes of its run know it.
func known() ([]string, error) {
	all, err := filepath.Glob(filepath.Join(os.TempDir(), folders+"*"))
	if err != nil {
		return nil, err
	}
	marks, err := host.Marks()
	for _, mark := range marks {
		if dir := runOf(mark); filepath.IsAbs(dir) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

// runOf is the folder of the run that a folder below it is of.
func runOf(dir string) string {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, ok := runner(dir); ok {
			return dir
		}
	}
	return ""
}

// runner is the process ID in the name of a run's folder.
func runner(dir string) (pid int, ok bool) {
	text, ok := strings.CutPrefix(filepath.Base(dir), folders)
	id, _, more := strings.Cut(text, "-")
	pid, err := strconv.Atoi(id)
	return pid, ok && more && err == nil && pid > 0
}

// remove ends what is left of the runs of some folders, where they are no more.
func remove(ctx context.Context, dirs []string) (removed []string, err error) {
	var errs []error
	for _, dir := range dirs {
		release, dead := abandoned(dir)
		if !dead {
			continue
		}
		names, err := removeRun(ctx, dir)
		removed, errs = append(removed, names...), append(errs, err)
		release()
	}
	return removed, errors.Join(errs...)
}

// abandoned says whether the run of a folder is no more. Until release no other cleanup
// takes it.
func abandoned(dir string) (release func(), dead bool) {
	pid, ok := runner(dir)
	if !ok {
		return nil, false
	}
	if f, err := os.Open(filepath.Join(dir, lockFile)); err == nil {
		release = func() { _ = f.Close() }
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return release, true
		case errors.Is(err, syscall.EWOULDBLOCK):
			release()
			return nil, false
		}
		release()
	}
	// It is of an older version, or was removed, or can't be locked where it is. Signal 0
	// reaches a process that is there, or may not be signalled.
	return func() {}, errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// removeRun removes what a run left: its folder goes last, because it is how the next
// attempt knows.
func removeRun(ctx context.Context, dir string) ([]string, error) {
	left, err := endBelow(ctx, dir)
	var removed []string
	for _, l := range left {
		removed = append(removed, fmt.Sprintf("%v of %s", l, dir))
	}
	if err != nil {
		return removed, err
	}
	_, err = os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return removed, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return removed, err
	}
	return append(removed, "folder "+dir), nil
}

// endBelow ends what a run's processes left behind.
func endBelow(ctx context.Context, dir string) ([]host.Left, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, endBudget, fmt.Errorf("not within %s", endBudget))
	defer cancel()
	left, err := host.EndBelow(ctx, dir)
	if err != nil {
		err = fmt.Errorf("what the run of %s left behind: %w", dir, err)
	}
	return left, err
}
