// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// record is what we remember of a cluster on disk, from before its first
// container until after its last one.
type record struct {
	Name       string    `json:"name"`
	Kubernetes string    `json:"kubernetes"` // as the node image says, "v1.34.4"
	Image      string    `json:"image"`
	Nodes      int       `json:"nodes"`
	IPFamily   string    `json:"ipFamily"`
	KubeProxy  string    `json:"kubeProxy"` // the mode that was asked for
	Ranges     ranges    `json:"ranges"`
	Bridge     string    `json:"bridge"`
	Kubeconfig string    `json:"kubeconfig"`
	Created    time.Time `json:"created"`
	// Ready is set last: without it the cluster is half made.
	Ready bool `json:"ready"`
}

// stateRoot is the folder of all clusters' folders: $XDG_STATE_HOME/lastcall or
// ~/.local/state/lastcall.
func stateRoot() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "lastcall"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the clusters' kubeconfigs: set HOME or XDG_STATE_HOME: %w", err)
	}
	return filepath.Join(home, ".local", "state", "lastcall"), nil
}

func stateDir(name string) (string, error) {
	root, err := stateRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, name), nil
}

// claim makes the cluster's folder: of two that want one name at the same time,
// one gets it.
func (r record) claim() error {
	dir, err := stateDir(r.Name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("the folder of our clusters: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return taken(r.Name)
	} else if err != nil {
		return fmt.Errorf("the folder of cluster %s: %w", r.Name, err)
	}
	return r.save()
}

// taken is the error for a name that a cluster of ours has, or had until it was
// killed.
func taken(name string) error {
	if r, err := load(name); err == nil && r.Ready {
		return fmt.Errorf("cluster %s exists: take another name, or `lastcall down --name %s` first", name, name)
	}
	return fmt.Errorf("cluster %s is half made, by another run or by one that was killed: take another name, or `lastcall down --name %s` first", name, name)
}

// save writes the record into the cluster's folder, which must be there: if
// somebody cleaned up meanwhile, the cluster is no more.
func (r record) save() error {
	dir, err := stateDir(r.Name)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("the record of cluster %s: %w", r.Name, err)
	}
	file := filepath.Join(dir, recordFile)
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		return fmt.Errorf("the record of cluster %s: %w", r.Name, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("the record of cluster %s: %w", r.Name, err)
	}
	return nil
}

const recordFile = "cluster.json"

// load reads a cluster's record; fs.ErrNotExist if there is none.
func load(name string) (record, error) {
	dir, err := stateDir(name)
	if err != nil {
		return record{}, err
	}
	content, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return record{}, fmt.Errorf("the record of cluster %s: %w", name, err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return record{}, fmt.Errorf("the record of cluster %s: %w", name, err)
	}
	if r.KubeProxy == "" {
		// Of a time when there was no other mode.
		r.KubeProxy = IPTables
	}
	return r, nil
}

// recorded names the clusters that have a folder.
func recorded() ([]string, error) {
	root, err := stateRoot()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the folder of our clusters: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && checkName(entry.Name()) == nil {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// MadeHere says whether a kubeconfig is that of a cluster that was made here, and stands.
func MadeHere(kubeconfig string) (bool, error) {
	at, err := filepath.Abs(kubeconfig)
	if err != nil {
		return false, err
	}
	names, err := recorded()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(names, func(name string) bool {
		r, err := load(name) // what can't be read names none
		return err == nil && r.Kubeconfig == at
	}), nil
}

// forget removes a cluster's kubeconfig and folder, and names what was there.
func forget(name string) ([]string, error) {
	dir, err := stateDir(name)
	if err != nil {
		return nil, err
	}
	var removed []string
	if r, err := load(name); err == nil && filepath.Dir(r.Kubeconfig) != dir {
		err := os.Remove(r.Kubeconfig)
		if err == nil {
			removed = append(removed, "kubeconfig "+r.Kubeconfig)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the kubeconfig of cluster %s: %w", name, err)
		}
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return removed, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return removed, fmt.Errorf("the folder of cluster %s: %w", name, err)
	}
	return append(removed, "folder "+dir), nil
}
