// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// standIns makes the commands that this machine does not have, and says so.
func (r *runner) standIns() (string, error) {
	dir := filepath.Join(r.temp, "standins")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	put := func(name, why, script string) error {
		fmt.Fprintf(r.out, "steps: %s is a stand-in: %s\n", name, why)
		return os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755)
	}
	if _, err := exec.LookPath("sudo"); err != nil {
		if os.Geteuid() != 0 {
			return "", errors.New("there is no sudo here, and this is not root: some steps need either")
		}
		if err := put("sudo", "it runs the command, as the root that this is", "exec \"$@\"\n"); err != nil {
			return "", err
		}
	}
	// sd_booted(3): what systemctl itself looks for.
	if _, err := os.Stat("/run/systemd/system"); errors.Is(err, fs.ErrNotExist) {
		script := "echo \"steps: stand-in: systemctl $*: no systemd runs here, so it started nothing\"\n"
		if err := put("systemctl", "it does nothing, because no systemd runs here", script); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// uses stands in for an action of somebody else.
func (r *runner) uses(ctx context.Context, st step, with map[string]string) error {
	name, _, _ := strings.Cut(st.Uses, "@")
	switch name {
	case "actions/checkout":
		dir := filepath.Join(r.workspace(), with["path"])
		if len(r.target.files) == 0 {
			r.say("stand-in", st, "a clone of what is committed here, in "+dir)
			return r.clone(ctx, dir)
		}
		r.say("stand-in", st, fmt.Sprintf("the files %v", r.target.files))
		for to, from := range r.target.files {
			to = filepath.Join(dir, to)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			data, err := os.ReadFile(filepath.Join(r.temp, "source", from))
			if err != nil {
				return err
			}
			if err := os.WriteFile(to, data, 0o644); err != nil {
				return err
			}
		}
	case "actions/setup-go":
		file := with["go-version-file"]
		if !filepath.IsAbs(file) {
			file = filepath.Join(r.workspace(), file)
		}
		if _, err := os.Stat(file); err != nil {
			return err
		}
		r.say("stand-in", st, "the Go that is here; go-version-file is there")
	case "actions/upload-artifact":
		n, size, err := measure(filepath.Join(r.workspace(), with["path"]))
		if err != nil {
			return err
		}
		if n == 0 && with["if-no-files-found"] == "error" {
			return fmt.Errorf("nothing to upload in %s", with["path"])
		}
		r.say("stand-in", st, fmt.Sprintf("it would take %d files, %d kB, of %s, as %q", n, size>>10, with["path"], with["name"]))
	case "actions/download-artifact":
		if r.target.artifacts == "" {
			return fmt.Errorf("no artifacts stand in the table for %s", st.Uses)
		}
		to := filepath.Join(r.workspace(), with["path"])
		from, err := filepath.Glob(filepath.Join(r.temp, "source", r.target.artifacts))
		if err != nil || len(from) == 0 {
			return fmt.Errorf("nothing is called %s here", r.target.artifacts)
		}
		r.say("stand-in", st, fmt.Sprintf("%d folders of %s", len(from), r.target.artifacts))
		for _, dir := range from {
			if err := os.CopyFS(filepath.Join(to, path.Base(dir)), os.DirFS(dir)); err != nil {
				return err
			}
		}
	default:
		r.say("not run", st, "an action of somebody else")
	}
	return nil
}

// say tells that a step was not run as it stands.
func (r *runner) say(what string, st step, why string) {
	text := fmt.Sprintf("%s: %s (%s)", what, st.title(), why)
	r.notRun = append(r.notRun, text)
	fmt.Fprintf(r.out, "steps: %s\n", text)
}

// clone puts what is committed here into dir.
func (r *runner) clone(ctx context.Context, dir string) error {
	out, err := exec.CommandContext(ctx, "git", "clone", "--quiet", "--depth=1", "file://"+r.repo, dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("git clone of %s: %w: %s", r.repo, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// measure counts the files in dir, and what they hold.
func measure(dir string) (n int, size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		n, size = n+1, size+info.Size()
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	return n, size, err
}
