// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// recordings is the cache for the recordings of a kill matrix, under the hash
// of what they depend on: the components (the agents' image), the suite (this
// executable), and what is asked for. What the cluster really was is kept with
// each. One that the suite did not make may change at any time: nothing of it is
// kept.
func recordings(ctx context.Context, cfg Config) (behaviour.Cache, error) {
	if cfg.Stage != StageKind {
		return behaviour.Cache{}, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return behaviour.Cache{}, fmt.Errorf("a place for recordings: %w", err)
	}
	agent, err := buildAgent(ctx)
	if err != nil {
		return behaviour.Cache{}, err
	}
	h := sha256.New()
	if err := hashSelf(h); err != nil {
		return behaviour.Cache{}, err
	}
	fmt.Fprintln(h, agent.Ref, cfg.Kubernetes, cfg.Nodes, cfg.KubeProxy, cfg.IPFamily, cfg.P, cfg.Profile)
	return behaviour.Cache{Dir: filepath.Join(dir, "lastcall", "recordings"), Of: hex.EncodeToString(h.Sum(nil))[:16]}, nil
}

// clusterStands says whether a cluster of that name does, or what is left of one.
func clusterStands(ctx context.Context, name string) bool {
	_, err := kind.Open(ctx, name)
	return !errors.Is(err, fs.ErrNotExist)
}

func hashSelf(h io.Writer) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("the suite's own executable: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("the suite's own executable: %w", err)
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}
