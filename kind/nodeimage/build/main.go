// SPDX-License-Identifier: Apache-2.0

// Command build makes the node image and prints its name.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lastcall-dev/lastcall/kind/nodeimage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "node-image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	k8s := flag.String("k8s", nodeimage.Supported()[0], "Kubernetes version: "+strings.Join(nodeimage.Supported(), ", "))
	cacheDir := flag.String("cache", "", "folder for finished steps (default: lastcall/nodeimage in the user's cache)")
	docker := flag.String("docker", "docker", "the docker command")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	versions, err := nodeimage.Resolve(*k8s)
	if err != nil {
		return err
	}
	ref, err := nodeimage.Build(ctx, nodeimage.Options{
		Versions: versions, CacheDir: *cacheDir, Docker: *docker,
		// os.Stderr is not buffered: each line is out when Fprintln returns.
		Progress: func(e nodeimage.Event) { fmt.Fprintln(os.Stderr, "node-image:", e) },
	})
	if err != nil {
		return err
	}
	fmt.Println(ref)
	return nil
}
