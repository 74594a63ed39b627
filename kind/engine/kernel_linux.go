// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// prepareKernel gives dockerd what an init system would have given it, and
// only where it is missing.
func (s *setup) prepareKernel() error {
	if err := s.mountCgroups(); err != nil {
		return err
	}
	// Three nodes' worth of kubelet, containerd and systemd use up the
	// kernel's default of 128 inotify instances for each user.
	return s.raise("/proc/sys/fs/inotify/max_user_instances", 512)
}

// mountCgroups mounts cgroup v1's controllers where neither a unified hierarchy
// nor the controllers are there.
func (s *setup) mountCgroups() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	enabled, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return fmt.Errorf("read the kernel's cgroup controllers: %w", err)
	}
	missing := missingCgroups(string(mounts), string(enabled))
	if len(missing) == 0 {
		return nil
	}
	if !mountedAt(string(mounts), cgroupRoot) {
		if err := unix.Mount("cgroup", cgroupRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
			return fmt.Errorf("mount a tmpfs on %s: %w", cgroupRoot, err)
		}
	}
	for _, controller := range missing {
		dir := filepath.Join(cgroupRoot, strings.TrimPrefix(controller, "name="))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the cgroup folder: %w", err)
		}
		options := controller
		if strings.HasPrefix(controller, "name=") {
			options = "none," + controller
		}
		if err := unix.Mount("cgroup", dir, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
			return fmt.Errorf("mount the cgroup controller %s: %w", controller, err)
		}
	}
	s.say("mounted cgroup controllers: %s", strings.Join(missing, " "))
	return nil
}

// wantedCgroups is what dockerd, runc and the kubelet can't do without on
// cgroup v1. The named hierarchy is what a node's systemd keeps its units in.
var wantedCgroups = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "name=systemd"}

// missingCgroups reads /proc/self/mounts and /proc/cgroups and names what of
// wantedCgroups the kernel has and nobody mounted; nothing on cgroup v2.
func missingCgroups(mounts, enabled string) []string {
	mounted := map[string]bool{}
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch {
		case fields[1] == cgroupRoot && fields[2] == "cgroup2":
			return nil
		case fields[2] == "cgroup":
			for _, option := range strings.Split(fields[3], ",") {
				mounted[option] = true
			}
		}
	}
	known := map[string]bool{"name=systemd": true}
	for line := range strings.Lines(enabled) {
		fields := strings.Fields(line)
		if len(fields) == 4 && fields[3] == "1" {
			known[fields[0]] = true
		}
	}
	var missing []string
	for _, controller := range wantedCgroups {
		if known[controller] && !mounted[controller] {
			missing = append(missing, controller)
		}
	}
	return missing
}

// mountedAt tells whether /proc/self/mounts has anything at a path.
func mountedAt(mounts, path string) bool {
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == path {
			return true
		}
	}
	return false
}

// raise sets a kernel setting to at least a value.
func (s *setup) raise(file string, least int) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read a kernel setting: %w", err)
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if now >= least {
		return nil
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(least)), 0o644); err != nil {
		return fmt.Errorf("raise a kernel setting: %w", err)
	}
	s.say("%s raised from %d to %d", file, now, least)
	return nil
}
