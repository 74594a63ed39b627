// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
)

// Read reads a report: a file, or the one in a directory. Every error names
// the file.
func Read(path string) (Input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Input{}, fmt.Errorf("no report: %w", err)
	}
	if info.IsDir() {
		r, err := yaml.ReadDir(path)
		return Input{From: path, Report: r}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Input{}, fmt.Errorf("read the report: %w", err)
	}
	defer f.Close()
	r, err := yaml.Read(f)
	if err != nil {
		return Input{}, fmt.Errorf("%s: %w", path, err)
	}
	return Input{From: path, Report: r}, nil
}

// Directory is that of a report by its path; "" where it was copied out of it.
func Directory(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	if filepath.Base(path) == v1alpha1.File {
		return filepath.Dir(path)
	}
	return ""
}
