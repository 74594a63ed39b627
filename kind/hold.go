// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// holdFile, in the cluster's folder, is locked by the run that uses it.
const holdFile = "run.lock"

// Hold keeps a cluster for one run until release: two at once would remove each
// other's namespaces, and one would take the cluster away under the other. The error
// says whose it is. A hold ends with its process, however that ends.
func (c *Cluster) Hold() (release func() error, err error) {
	dir, err := stateDir(c.record.Name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, holdFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.record.Name, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			who, _ := io.ReadAll(f)
			err = fmt.Errorf("a run uses it (process %s): wait for its end, or take another name", strings.TrimSpace(string(who)))
		}
		return nil, errors.Join(fmt.Errorf("cluster %s: %w", c.record.Name, err), f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster %s: %w", c.record.Name, err), f.Close())
	}
	return f.Close, nil
}
