// SPDX-License-Identifier: Apache-2.0

// Package yaml writes and reads the canonical form of a report. Reading is
// strict: unknown fields, doubled keys, other kinds and reports that end too
// early are errors.
package yaml

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Write writes the report, and sets its API version and kind.
func Write(w io.Writer, r *v1alpha1.ConformanceReport) error {
	out := *r
	out.APIVersion, out.Kind = v1alpha1.APIVersion, v1alpha1.Kind
	b, err := yaml.Marshal(&out)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// Read reads one report.
func Read(r io.Reader) (*v1alpha1.ConformanceReport, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	// The kind comes first: of another document the unknown fields say little.
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("this is no report: %w", err)
	}
	if head.APIVersion == v1alpha1.APIVersion && head.Kind == "" {
		return nil, errors.New("the report ends too early: it has no kind")
	}
	if head.APIVersion != v1alpha1.APIVersion || head.Kind != v1alpha1.Kind {
		return nil, fmt.Errorf("this is no report: it is %q %q, not %q %q",
			head.APIVersion, head.Kind, v1alpha1.APIVersion, v1alpha1.Kind)
	}
	var out v1alpha1.ConformanceReport
	if err := yaml.UnmarshalStrict(b, &out); err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	if err := whole(b, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// whole refuses a report that ends too early. Its fields are in the order of
// their names, the verdict last, so that one that was cut between two lines is
// YAML still, and would read as a run that judged nothing.
func whole(b []byte, r *v1alpha1.ConformanceReport) error {
	var has struct {
		Settings struct {
			P *string `json:"p"`
		} `json:"settings"`
		Summary *v1alpha1.Summary `json:"summary"`
		Verdict *string           `json:"verdict"`
	}
	if err := yaml.Unmarshal(b, &has); err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	var lacks []string
	for _, part := range []struct {
		name string
		has  bool
	}{{"settings.p", has.Settings.P != nil}, {"summary", has.Summary != nil}, {"verdict", has.Verdict != nil}} {
		if !part.has {
			lacks = append(lacks, part.name)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("the report ends too early: it has no %s", strings.Join(lacks, ", no "))
	}
	counted := *r
	counted.Behaviours = slices.Clone(r.Behaviours)
	counted.Conclude()
	is, want := r.Summary, counted.Summary
	// A warning follows from a level, and not from how much there is to read.
	is.Warnings, want.Warnings = 0, 0
	if is != want {
		return fmt.Errorf("the report ends too early, or is not whole: its summary counts %s, and it holds %s", counts(is), counts(want))
	}
	return nil
}

func counts(s v1alpha1.Summary) string {
	return fmt.Sprintf("%d passed, %d failed, %d inconclusive, %d error, %d skipped", s.Passed, s.Failed, s.Inconclusive, s.Errors, s.Skipped)
}

// WriteDir writes the report into its directory, whole or not at all, and
// returns the file's path.
func WriteDir(dir string, r *v1alpha1.ConformanceReport) (_ string, err error) {
	f, err := os.CreateTemp(dir, "."+v1alpha1.File+".*")
	if err != nil {
		return "", fmt.Errorf("write the report: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(Write(f, r), f.Chmod(0o644), f.Close()); err != nil {
		return "", err
	}
	path := filepath.Join(dir, v1alpha1.File)
	if err := os.Rename(f.Name(), path); err != nil {
		return "", fmt.Errorf("write the report: %w", err)
	}
	return path, nil
}

// ReadDir reads the report of a directory.
func ReadDir(dir string) (*v1alpha1.ConformanceReport, error) {
	path := filepath.Join(dir, v1alpha1.File)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no report in %s: a report's directory holds %s; `lastcall run` prints its path: %w", dir, v1alpha1.File, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	defer f.Close()
	r, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
