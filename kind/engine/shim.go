// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	runtimeName = "lastcall-capshim"
	shimFile    = "/usr/local/lib/lastcall/capshim"
	shimPackage = "github.com/lastcall-dev/lastcall/kind/engine/capshim"
	daemonFile  = "/etc/docker/daemon.json"
)

// shimInstalled tells whether the shim's program is where daemonFile says.
func shimInstalled() bool {
	info, err := os.Stat(shimFile)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// installShim builds the shim where it is missing or of another version, and
// makes it docker's default runtime in daemonFile. It tells whether daemonFile
// changed.
func (s *setup) installShim(ctx context.Context, lacking []string) (changed bool, err error) {
	if err := s.buildShim(ctx, lacking); err != nil {
		return false, err
	}
	before, err := os.ReadFile(daemonFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read docker's settings: %w", err)
	}
	after, err := mergeDaemon(before)
	if err != nil {
		return false, fmt.Errorf("%s: %w", daemonFile, err)
	}
	if bytes.Equal(before, after) {
		return false, nil
	}
	if err := replaceFile(daemonFile, after, 0o644); err != nil {
		return false, err
	}
	s.say("%s: default runtime is now %s", daemonFile, runtimeName)
	return true, nil
}

func (s *setup) buildShim(ctx context.Context, lacking []string) error {
	dir, err := os.MkdirTemp("", "lastcall-capshim-")
	if err != nil {
		return fmt.Errorf("a place to build the shim: %w", err)
	}
	defer os.RemoveAll(dir)
	built := filepath.Join(dir, "capshim")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", built, shimPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the capability shim (in the source tree of lastcall): %w: %s", err, tail(string(out), 5))
	}
	program, err := os.ReadFile(built)
	if err != nil {
		return fmt.Errorf("read the shim: %w", err)
	}
	if old, err := os.ReadFile(shimFile); err == nil && bytes.Equal(old, program) && shimInstalled() {
		return nil
	}
	if err := replaceFile(shimFile, program, 0o755); err != nil {
		return err
	}
	s.say("capability shim installed as %s, because this host can't grant %s", shimFile, strings.Join(lacking, ", "))
	return nil
}

// mergeDaemon adds the shim to docker's settings and leaves every other one as
// it is. No settings at all are an empty file. Settings that have it already
// come back byte for byte.
func mergeDaemon(before []byte) ([]byte, error) {
	settings := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(before)) > 0 {
		if err := json.Unmarshal(before, &settings); err != nil {
			return nil, fmt.Errorf("not a JSON object, mend it first: %w", err)
		}
	}
	runtimes := map[string]json.RawMessage{}
	if raw, ok := settings["runtimes"]; ok {
		if err := json.Unmarshal(raw, &runtimes); err != nil {
			return nil, fmt.Errorf("its runtimes are not a JSON object, mend them first: %w", err)
		}
	}
	var current string
	if raw, ok := settings["default-runtime"]; ok {
		if err := json.Unmarshal(raw, &current); err != nil {
			return nil, fmt.Errorf("its default-runtime is not a string, mend it first: %w", err)
		}
	}
	var ours struct {
		Path string `json:"path"`
	}
	if raw, ok := runtimes[runtimeName]; ok {
		// What does not decode is not ours, and is replaced.
		_ = json.Unmarshal(raw, &ours)
	}
	if current == runtimeName && ours.Path == shimFile {
		return before, nil
	}
	if current != "" && current != "runc" && current != runtimeName {
		return nil, fmt.Errorf("its default-runtime is %q, and on this host a cluster needs the capability shim there: take that line out and run again", current)
	}
	ours.Path = shimFile
	for _, step := range []struct {
		into  map[string]json.RawMessage
		key   string
		value any
	}{
		{runtimes, runtimeName, ours},
		{settings, "runtimes", runtimes},
		{settings, "default-runtime", runtimeName},
	} {
		raw, err := json.Marshal(step.value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", step.key, err)
		}
		step.into[step.key] = raw
	}
	after, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode docker's settings: %w", err)
	}
	return append(after, '\n'), nil
}

// replaceFile writes a file beside its place and renames it there, so that a
// running engine sees the old one or the new one, never half of it.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", path, err)
	}
	temp := path + ".lastcall-new"
	if err := os.WriteFile(temp, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	// WriteFile's mode goes through the umask, and does not change a file that
	// a killed run left.
	if err := os.Chmod(temp, mode); err != nil {
		return fmt.Errorf("set the mode of %s: %w", path, err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("put %s in its place: %w", path, err)
	}
	return nil
}
