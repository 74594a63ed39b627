// SPDX-License-Identifier: Apache-2.0

// Package nodeimage makes the image of a kind node from Go modules and Debian
// packages, with no image registry. It is a pure function of Versions: each step is
// kept on disk under a hash of its inputs, and nothing is built twice.
package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options of Build. Only Versions must be given.
type Options struct {
	Versions Versions
	// CacheDir keeps finished steps (about 2 GB); default DefaultCacheDir.
	CacheDir string
	// Docker is the docker command, "docker" by default.
	Docker string
	// Progress is told what happens, one event at a time; may be nil.
	Progress func(Event)
}

// parallelSteps run at the same time: the Go builds use all cores themselves, but they
// also wait for downloads.
const parallelSteps = 2

// DefaultCacheDir is lastcall/nodeimage below the user's cache directory.
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where to keep the node image's parts: %w (set Options.CacheDir)", err)
	}
	return filepath.Join(dir, "lastcall", "nodeimage"), nil
}

// Build makes sure that docker has the image of these versions and returns its name.
// It returns at once when docker has it already. A cancelled build goes on where it
// was: finished steps are kept. Building needs root on Debian, Go, and a reachable
// docker; having the image already needs docker only.
func Build(ctx context.Context, o Options) (string, error) {
	if err := o.Versions.check(); err != nil {
		return "", err
	}
	if o.Docker == "" {
		o.Docker = "docker"
	}
	arch := runtime.GOARCH
	ref := reference(o.Versions, arch)
	// Before an hour's work, not after it.
	if _, err := (command{}).output(ctx, o.Docker, "version", "--format", "{{.Server.Version}}"); err != nil {
		return "", fmt.Errorf("the container engine does not answer: %w", err)
	}
	have, err := hasImage(ctx, o.Docker, ref)
	if err != nil || have {
		return ref, err
	}
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("building the node image needs Linux, this is %s: build it on a Linux machine and docker load it here, or use a node image from a registry", runtime.GOOS)
	}
	for _, tool := range []string{"go", "tar", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("building the node image needs %s: %w", tool, err)
		}
	}
	if o.CacheDir == "" {
		if o.CacheDir, err = DefaultCacheDir(); err != nil {
			return "", err
		}
	}
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(o.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("the node image's cache: %w", err)
	}
	var mu sync.Mutex
	progress := func(e Event) {
		if o.Progress == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		o.Progress(e)
	}
	c := cache{root: o.CacheDir, parallel: parallelSteps, progress: progress}
	unlock, err := c.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := c.clean(); err != nil {
		return "", err
	}
	steps := plan(o.Versions, arch)
	last := &steps[len(steps)-1]
	last.have = func(ctx context.Context) (bool, error) { return hasImage(ctx, o.Docker, ref) }
	last.build = func(ctx context.Context, dir string, in map[string]string) error {
		return nodeImage(ctx, o.Docker, ref, dir, arch, o.Versions, in)
	}
	if err := c.run(ctx, steps); err != nil {
		return "", err
	}
	return ref, nil
}

// hasImage reports whether docker holds the image.
func hasImage(ctx context.Context, docker, ref string) (bool, error) {
	// `docker image inspect` fails alike for an absent image and an absent engine.
	out, err := command{}.output(ctx, docker, "image", "ls", "--quiet", ref)
	if err != nil {
		return false, fmt.Errorf("ask for the image %s: %w", ref, err)
	}
	return strings.TrimSpace(out) != "", nil
}

// lock keeps other builds out of the cache until unlock, also those of other processes;
// it ends with the process, however that ends.
func (c cache) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(c.root, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if !told {
			c.progress(Event{State: Waiting})
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-tick.C:
		}
	}
}
