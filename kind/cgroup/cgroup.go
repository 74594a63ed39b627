// SPDX-License-Identifier: Apache-2.0

// Package cgroup looks at the control groups of containers on this machine: it thaws
// what is frozen in them, and says which processes are left there.
//
// On cgroup v1 runc freezes a container for a moment while it changes its devices. Where
// it is killed in this moment the container stays frozen, and with cgroup v1 no signal
// ends a frozen process, not even SIGKILL: it waits for ever, and with it the node that
// it is in.
package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Hierarchies are those of this machine in which processes can be frozen.
type Hierarchies []hierarchy

type hierarchy struct {
	mount string
	kind  freezing
}

// freezing is how one version of cgroup freezes.
type freezing struct {
	// own is a file that says whether a group itself is to be frozen, in the word asked.
	own, asked string
	// control takes the word thaw.
	control, thaw string
	// state says whether a group is frozen, by itself or by one above it: it does not
	// have the words thawed.
	state, thawed string
}

// The two versions: the kernel's Documentation/admin-guide/cgroup-v1/freezer-subsystem.rst
// and cgroup-v2.rst.
var (
	v1 = freezing{own: "freezer.self_freezing", asked: "1", control: "freezer.state", thaw: "THAWED", state: "freezer.state", thawed: "THAWED"}
	v2 = freezing{own: "cgroup.freeze", asked: "1", control: "cgroup.freeze", thaw: "0", state: "cgroup.events", thawed: "frozen 0"}
)

// Mounted finds the hierarchies. A system that has none, as macOS, has no file that
// names them.
func Mounted() (Hierarchies, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the mounts: %w", err)
	}
	return parse(string(mounts)), nil
}

// parse reads a mountinfo file: proc_pid_mountinfo(5).
func parse(mounts string) Hierarchies {
	var list Hierarchies
	for line := range strings.Lines(mounts) {
		mount, kind, _ := strings.Cut(strings.TrimSpace(line), " - ")
		at, is := strings.Fields(mount), strings.Fields(kind)
		if len(at) < 5 || len(is) < 3 {
			continue
		}
		switch {
		case is[0] == "cgroup2":
			list = append(list, hierarchy{at[4], v2})
		case is[0] == "cgroup" && slices.Contains(strings.Split(is[2], ","), "freezer"):
			list = append(list, hierarchy{at[4], v1})
		}
	}
	return list
}

// containerID is what docker and podman call a container. The groups are found by it
// alone, so it must be no shorter.
var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// group is one control group of a container.
type group struct {
	dir  string
	kind freezing
}

// of finds a container's groups, and all those below: the groups of what runs in it. They
// are found by their names, which have the ID in them whoever made them
// ("docker/ID", "docker-ID.scope"). What its processes say themselves (/proc/PID/cgroup)
// is the root, as soon as they are on their way out.
func (h Hierarchies) of(id string) []group {
	if !containerID.MatchString(id) {
		return nil
	}
	var list []group
	for _, one := range h {
		within := ""
		// What goes away meanwhile is passed over.
		_ = filepath.WalkDir(one.mount, func(dir string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil //nolint:nilerr // see above
			}
			if within == "" || !strings.HasPrefix(dir, within) {
				within = ""
				if !strings.Contains(entry.Name(), id) {
					return nil
				}
				within = dir + string(filepath.Separator)
			}
			list = append(list, group{dir, one.kind})
			return nil
		})
	}
	return list
}

// Thaw thaws what is frozen in a container, and names the groups. It returns before the
// processes run again.
func (h Hierarchies) Thaw(id string) ([]string, error) {
	var thawed []string
	var errs []error
	for _, g := range h.of(id) {
		if g.read(g.kind.own) != g.kind.asked {
			continue
		}
		err := os.WriteFile(filepath.Join(g.dir, g.kind.control), []byte(g.kind.thaw), 0)
		switch {
		case err == nil:
			thawed = append(thawed, g.dir)
		case !errors.Is(err, fs.ErrNotExist): // it went away
			errs = append(errs, fmt.Errorf("thaw: %w", err))
		}
	}
	return thawed, errors.Join(errs...)
}

// read is a file of the group; "" for one that is not there.
func (g group) read(name string) string {
	content, _ := os.ReadFile(filepath.Join(g.dir, name))
	return string(bytes.TrimSpace(content))
}

// frozen says whether the group's processes are frozen, or are being frozen.
func (g group) frozen() bool {
	state := g.read(g.kind.state)
	return state != "" && !strings.Contains(state, g.kind.thawed)
}

// told is how many processes Left names.
const told = 3

// Left says which processes are left in a container, those first that are frozen or wait
// in the kernel: they are what holds it. "" where none is to be seen.
func (h Hierarchies) Left(id string) string {
	held, others := map[string]string{}, map[string]string{} // by process: it has a group in each hierarchy
	for _, g := range h.of(id) {
		frozen := g.frozen()
		for _, pid := range strings.Fields(g.read("cgroup.procs")) {
			name, state := process(pid)
			what := fmt.Sprintf("process %s (%s)", pid, name)
			switch {
			case state == "": // it has ended
			case frozen:
				held[pid] = what + " is frozen in " + g.dir
			case state == "D" && held[pid] == "":
				held[pid] = what + " waits in the kernel (state D)"
			default:
				others[pid] = what + " is in state " + state
			}
		}
	}
	maps.DeleteFunc(others, func(pid, _ string) bool { return held[pid] != "" })
	list := slices.Concat(slices.Sorted(maps.Values(held)), slices.Sorted(maps.Values(others)))
	if more := len(list) - told; more > 0 {
		list = append(list[:told], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// process is the name of a process and its state: proc_pid_stat(5). The state is "" for
// one that has ended.
func process(pid string) (name, state string) {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return "", ""
	}
	// The name may have blanks and parentheses in it.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open || end+2 >= len(stat) {
		return "", ""
	}
	return string(stat[open+1 : end]), string(stat[end+2 : end+3])
}
