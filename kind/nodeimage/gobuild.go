// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// program is a set of binaries from Go modules. It is built in a throwaway
// module, because `go install pkg@version` refuses modules with replacements
// and k8s.io/kubernetes can't be built without them.
type program struct {
	name     string            // "etcd"
	require  []module.Version  // the first one's go.mod sets the Go version and what is replaced
	packages map[string]string // import path -> name of the binary
	tags     string            // comma separated
	vars     []string          // "import/path.name=value", set by the linker
	sources  fs.FS             // if not nil: the main package itself, at the throwaway module's root
}

// programRevision goes into every program's key; raise it when build changes what it makes.
const programRevision = "program/1"

func (p program) inputs(arch string) []string {
	in := []string{programRevision, arch, p.tags}
	for _, m := range p.require {
		in = append(in, m.String())
	}
	for _, pkg := range sorted(p.packages) {
		in = append(in, pkg, p.packages[pkg])
	}
	return append(in, p.vars...)
}

func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// goEnv makes the build the same whatever the caller's own settings are; proxy and
// checksum settings stay the caller's.
func goEnv(arch string) []string {
	return []string{"GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch}
}

// build writes the binaries, static and stripped, into dir.
func (p program) build(ctx context.Context, dir, arch string) error {
	goCommand, err := inModule(dir, arch)
	if err != nil {
		return err
	}
	work := goCommand.dir
	file, err := p.goMod(ctx, goCommand)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "go.mod"), file, 0o644); err != nil {
		return err
	}
	if p.sources != nil {
		if err := os.CopyFS(work, p.sources); err != nil {
			return err
		}
	}
	args := []string{"build", "-trimpath", "-buildvcs=false"}
	if p.tags != "" {
		args = append(args, "-tags", p.tags)
	}
	ldflags := "-s -w"
	for _, v := range p.vars {
		ldflags += " -X " + v
	}
	args = append(args, "-ldflags", ldflags)
	pkgs := sorted(p.packages)
	if len(pkgs) == 1 {
		// go names a binary after its directory, or after the module for "v3"-like ones.
		args = append(args, "-o", filepath.Join(dir, p.packages[pkgs[0]]))
	} else {
		args = append(args, "-o", dir+string(filepath.Separator))
	}
	if err := goCommand.run(ctx, "go", append(args, pkgs...)...); err != nil {
		return err
	}
	for _, pkg := range pkgs {
		if _, err := os.Stat(filepath.Join(dir, p.packages[pkg])); err != nil {
			return fmt.Errorf("go build of %s did not leave its binary: %w", pkg, err)
		}
	}
	return nil
}

// inModule makes an empty module beside a step's output directory, for go to run in.
// The empty go.mod keeps go from finding one further up.
func inModule(dir, arch string) (command, error) {
	work := filepath.Join(filepath.Dir(dir), "module")
	if err := os.Mkdir(work, 0o755); err != nil {
		return command{}, err
	}
	err := os.WriteFile(filepath.Join(work, "go.mod"), []byte("module lastcall.dev/nodeimage\n"), 0o644)
	// GOTMPDIR: what a killed go leaves behind goes away with the step's own files.
	return command{dir: work, env: append(goEnv(arch), "GOTMPDIR="+filepath.Dir(dir))}, err
}

// goMod writes the throwaway module's go.mod.
func (p program) goMod(ctx context.Context, goCommand command) ([]byte, error) {
	var upstream *modfile.File
	if len(p.require) > 0 {
		mod, err := download(ctx, goCommand, p.require[0])
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(mod.GoMod)
		if err != nil {
			return nil, err
		}
		if upstream, err = modfile.Parse(mod.GoMod, data, nil); err != nil {
			return nil, fmt.Errorf("go.mod of %s: %w", p.require[0], err)
		}
	}
	return throwaway(p, upstream)
}

// throwaway is a go.mod that requires the program's modules. Where the upstream
// module asks for k8s.io/NAME v0.0.0, which only its own replacements provide, the
// release of the same number takes its place: v1.34.4 goes with v0.34.4.
func throwaway(p program, upstream *modfile.File) ([]byte, error) {
	out := new(modfile.File)
	if err := out.AddModuleStmt("lastcall.dev/nodeimage/" + p.name); err != nil {
		return nil, err
	}
	version := "1.24.0"
	if upstream != nil && upstream.Go != nil {
		version = upstream.Go.Version
	}
	if err := out.AddGoStmt(version); err != nil {
		return nil, err
	}
	if upstream != nil {
		for _, g := range upstream.Godebug {
			if err := out.AddGodebug(g.Key, g.Value); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range p.require {
		out.AddNewRequire(m.Path, m.Version, false)
	}
	if upstream != nil {
		for _, r := range upstream.Require {
			if r.Mod.Version != "v0.0.0" || path.Dir(r.Mod.Path) != "k8s.io" {
				continue
			}
			staged := "v0." + strings.TrimPrefix(p.require[0].Version, "v1.")
			if err := out.AddReplace(r.Mod.Path, "", r.Mod.Path, staged); err != nil {
				return nil, err
			}
		}
	}
	out.Cleanup()
	return out.Format()
}

// downloaded is what `go mod download -json` says of one module.
type downloaded struct {
	Dir, GoMod, Error string
}

// download brings a module into the module cache.
func download(ctx context.Context, goCommand command, m module.Version) (downloaded, error) {
	// On failure go prints the reason in the JSON, on standard output.
	text, runErr := goCommand.output(ctx, "go", "mod", "download", "-json", m.String())
	var d downloaded
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		if runErr != nil {
			return d, fmt.Errorf("download %s: %w", m, runErr)
		}
		return d, fmt.Errorf("download %s: what go printed: %w", m, err)
	}
	if d.Error != "" {
		return d, fmt.Errorf("download %s: %s", m, d.Error)
	}
	if runErr != nil {
		return d, fmt.Errorf("download %s: %w", m, runErr)
	}
	return d, nil
}
