// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/kind/egress"
	"github.com/lastcall-dev/lastcall/kind/nodeimage"
)

// registryBudget is how long the engine may take until a registry has begun to
// answer; the download after that takes what it takes.
const registryBudget = 10 * time.Second

// silent remembers for the life of the process that no registry answers: asking
// again costs registryBudget each time.
var silent struct {
	sync.Mutex
	reason string // "" as long as nothing is known
}

var errNoRegistry = errors.New("no registry answers")

// nodeImage makes sure that the engine has the node image, and returns its
// reference and the Kubernetes version in it: the given one; or what is on the
// machine already; or kindest/node from a registry; or, where none answers, one
// built from source.
func nodeImage(ctx context.Context, c Config) (reference, kubernetes string, err error) {
	if c.Image != "" {
		if !present(ctx, c.Image) {
			if err := pull(ctx, c.Image, c.Progress); err != nil {
				return "", "", fmt.Errorf("node image %s: %w: load it with `docker load`, or leave --image out", c.Image, err)
			}
		}
		kubernetes, err = versionOf(ctx, c.Name, c.Image)
		return c.Image, kubernetes, err
	}
	found, err := sources(c.Kubernetes)
	if err != nil {
		return "", "", err
	}
	if found.registry != "" && present(ctx, found.registry) {
		c.Progress("node image " + found.registry + ": on this machine (cache hit)")
		return found.registry, found.release, nil
	}
	if found.built != nil {
		if reference := nodeimage.Reference(*found.built); present(ctx, reference) {
			c.Progress("node image " + reference + ": on this machine (cache hit)")
			return reference, found.built.Kubernetes, nil
		}
	}
	if found.registry != "" {
		err := pull(ctx, found.registry, c.Progress)
		if err == nil {
			return found.registry, found.release, nil
		}
		if ctx.Err() != nil {
			return "", "", fmt.Errorf("node image %s: %w", found.registry, err)
		}
		if found.built == nil {
			return "", "", fmt.Errorf("node image %s: %w: ask for one that can be built without a registry: %s", found.registry, err, strings.Join(nodeimage.Supported(), ", "))
		}
		c.Progress(fmt.Sprintf("node image %s: %v; building one from source (cache miss)", found.registry, err))
	}
	reference, err = nodeimage.Build(ctx, nodeimage.Options{
		Versions: *found.built,
		CacheDir: c.NodeImageCache,
		Progress: func(event nodeimage.Event) { c.Progress("node image: " + event.String()) },
	})
	if err != nil {
		return "", "", fmt.Errorf("build the node image for Kubernetes %s: %w", c.Kubernetes, err)
	}
	return reference, found.built.Kubernetes, nil
}

// present tells whether the engine has an image.
func present(ctx context.Context, reference string) bool {
	_, err := docker.Output(ctx, "image", "inspect", "--format", "{{.Id}}", reference)
	return err == nil
}

// pull gets an image from its registry, or returns errNoRegistry if none has
// begun to answer within registryBudget.
func pull(ctx context.Context, reference string, progress func(string)) error {
	silent.Lock()
	defer silent.Unlock()
	if silent.reason != "" {
		return fmt.Errorf("%w (%s)", errNoRegistry, silent.reason)
	}
	progress("node image " + reference + ": asking the registry")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(registryBudget, func() { cancel(errNoRegistry) })
	defer timer.Stop()

	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, "docker", "pull", reference)
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("docker pull: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("docker pull: %w", err)
	}
	// The first line comes with the manifest: from there on it is a download.
	answered := readFirst(stdout, func() { timer.Stop(); progress("node image " + reference + ": downloading") })
	err = cmd.Wait()
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), errNoRegistry):
		silent.reason = fmt.Sprintf("not within %s", registryBudget)
	case ctx.Err() != nil:
		return ctx.Err()
	case answered:
		return fmt.Errorf("docker pull: %w: %s", err, docker.OneLine(stderr.String()))
	default:
		silent.reason = docker.OneLine(stderr.String())
	}
	return fmt.Errorf("%w (%s)", errNoRegistry, silent.reason)
}

// readFirst reads to the end, calls first at the first line, and tells whether
// there was one.
func readFirst(r io.Reader, first func()) bool {
	lines, any := bufio.NewScanner(r), false
	for lines.Scan() {
		if !any {
			any = true
			first()
		}
	}
	return any
}

// versionOf reads the Kubernetes version that a node image on this machine
// holds, "v1.34.4". The container that it takes is labelled as the cluster's.
func versionOf(ctx context.Context, name, reference string) (string, error) {
	out, err := docker.Output(ctx, "run", "--rm", "--pull=never", "--network", "none", "--label", egress.Label+"="+prefix+name,
		"--entrypoint", "cat", reference, "/kind/version")
	if ctx.Err() != nil {
		return "", fmt.Errorf("read the version of image %s: %w", reference, ctx.Err())
	}
	if err != nil {
		return "", fmt.Errorf("image %s is not a node image of kind, it has no /kind/version: %w", reference, err)
	}
	return strings.TrimSpace(out), nil
}
