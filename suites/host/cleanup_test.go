// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCleanup(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	mine, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	// No process has the largest number of all (proc(5), pid_max).
	dead := filepath.Join(os.TempDir(), folders+"2147483647-1")
	other := filepath.Join(os.TempDir(), folders+"notes")
	for _, dir := range []string{dead, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := Cleanup()
	if err != nil || !slices.Equal(removed, []string{"folder " + dead}) {
		t.Errorf("%v, %v", removed, err)
	}
	for _, dir := range []string{mine, other} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}
