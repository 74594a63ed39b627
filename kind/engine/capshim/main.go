// SPDX-License-Identifier: Apache-2.0

// Command capshim is an OCI runtime in front of runc: it takes out of the spec
// the capabilities that this host's bounding set lacks, then becomes runc.
// `lastcall`'s engine set-up installs it as docker's default runtime, and only
// on a host that lacks one (see package bounding).
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lastcall-dev/lastcall/kind/engine/bounding"
)

func main() {
	// Only a failure comes back: success is another program.
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "capshim: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	runc, err := findRunc()
	if err != nil {
		return err
	}
	if target, ok := specFile(args); ok {
		if err := stripFile(target); err != nil {
			return err
		}
	}
	if err := syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ()); err != nil {
		return fmt.Errorf("become %s: %w", runc, err)
	}
	return nil
}

// findRunc looks beyond PATH, because containerd's shims may come with none.
func findRunc() (string, error) {
	if path, err := exec.LookPath("runc"); err == nil {
		return path, nil
	}
	for _, path := range []string{"/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("runc is neither in PATH nor in /usr/sbin, /usr/bin or /usr/local/sbin: install it")
}

// spec is a file that a call of runc will read its capabilities from.
type spec struct {
	path    string
	process bool // a process.json, not a config.json
}

// specFile finds the file that a runc command line names, if the command reads
// one: create, run and restore take --bundle (or the working directory), exec
// takes --process.
func specFile(args []string) (spec, bool) {
	for i, arg := range args {
		switch arg {
		case "create", "run", "restore":
			bundle, ok := option(args[i+1:], "-b", "--bundle")
			if !ok {
				bundle = "."
			}
			return spec{path: filepath.Join(bundle, "config.json")}, true
		case "exec":
			path, ok := option(args[i+1:], "-p", "--process")
			return spec{path: path, process: true}, ok
		}
	}
	return spec{}, false
}

// option finds the value of a flag, as `--name value` or `--name=value`.
func option(args []string, names ...string) (string, bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		for _, name := range names {
			if arg == name && i+1 < len(args) {
				return args[i+1], true
			}
			if value, ok := strings.CutPrefix(arg, name+"="); ok {
				return value, true
			}
		}
	}
	return "", false
}

func stripFile(target spec) error {
	in, err := os.ReadFile(target.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // runc says it better
	}
	if err != nil {
		return fmt.Errorf("read the spec: %w", err)
	}
	set, err := bounding.Current()
	if err != nil {
		return err
	}
	strip := set.StripConfig
	if target.process {
		strip = set.StripProcess
	}
	out, removed, err := strip(in)
	if err != nil {
		return fmt.Errorf("%s: %w", target.path, err)
	}
	if len(removed) == 0 {
		return nil
	}
	// In place, so that owner and mode stay what containerd chose.
	if err := os.WriteFile(target.path, out, 0o600); err != nil {
		return fmt.Errorf("write the spec: %w", err)
	}
	return nil
}
