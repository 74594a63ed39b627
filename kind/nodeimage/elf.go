// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// closure lists what the given programs of a Debian root need to run: themselves,
// their loader and all shared libraries, as paths in the root, sorted. The root's
// files are read on this machine, nothing of it runs.
func closure(root string, programs []string) ([]string, error) {
	dirs := libraryDirs(root)
	seen := map[string]bool{}
	queue := slices.Clone(programs)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		needs, err := needed(root, name, dirs)
		if err != nil {
			return nil, err
		}
		queue = append(queue, needs...)
	}
	out := make([]string, 0, len(seen))
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

// libraryDirs of a merged-/usr Debian, its multiarch directory first.
func libraryDirs(root string) []string {
	found, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	dirs := make([]string, 0, len(found)+1)
	for _, d := range found {
		dirs = append(dirs, "/usr/lib/"+filepath.Base(d))
	}
	return append(dirs, "/usr/lib")
}

// needed lists the loader and the libraries that one ELF file names.
func needed(root, name string, dirs []string) ([]string, error) {
	f, err := elf.Open(inRoot(root, name))
	if err != nil {
		return nil, fmt.Errorf("%s in the node's root: %w", name, err)
	}
	defer f.Close()
	var out []string
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader := make([]byte, p.Filesz)
		if _, err := p.ReadAt(loader, 0); err != nil {
			return nil, fmt.Errorf("%s: its loader: %w", name, err)
		}
		out = append(out, path.Clean(string(loader[:len(loader)-1])))
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("%s: its libraries: %w", name, err)
	}
	for _, library := range libraries {
		at := slices.IndexFunc(dirs, func(d string) bool {
			_, err := os.Lstat(filepath.Join(root, d, library))
			return !errors.Is(err, os.ErrNotExist)
		})
		if at < 0 {
			return nil, fmt.Errorf("%s needs %s, which is in none of %v", name, library, dirs)
		}
		out = append(out, path.Join(dirs[at], library))
	}
	return out, nil
}

// merged gives a path of /lib or /lib64 as what it is on a merged-/usr Debian.
func merged(name string) string {
	if strings.HasPrefix(name, "/lib") {
		return "/usr" + name
	}
	return name
}

// inRoot is the file on this machine that name means inside the root. Debian has
// absolute links (to the loader), which would lead to this machine's own files.
func inRoot(root, name string) string {
	name = merged(name)
	for range 10 {
		target, err := os.Readlink(filepath.Join(root, name))
		if err != nil {
			break
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		name = merged(target)
	}
	return filepath.Join(root, name)
}
