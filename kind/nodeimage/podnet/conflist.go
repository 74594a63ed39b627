// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
)

// conflistName sorts before what other plugins would write later.
const conflistName = "10-podnet.conflist"

// The CNI configuration list (CNI spec 1.1.0, section 1).
type conflist struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []any  `json:"plugins"`
}

type ptp struct {
	Type   string    `json:"type"`
	IPMasq bool      `json:"ipMasq"`
	MTU    int       `json:"mtu,omitempty"`
	IPAM   hostLocal `json:"ipam"`
}

type hostLocal struct {
	Type    string       `json:"type"`
	DataDir string       `json:"dataDir"`
	Routes  []ipamRoute  `json:"routes"`
	Ranges  [][]ipamPool `json:"ranges"`
}

type ipamRoute struct {
	Dst string `json:"dst"`
}

type ipamPool struct {
	Subnet string `json:"subnet"`
}

// unique takes the addresses of a pod's links for unique, so that nothing waits for the link to say so. It is before what makes
// these links.
type unique struct {
	Type string `json:"type"`
}

type portmap struct {
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
}

// render gives the configuration for a node whose pods live in cidrs, one for each
// IP family. mtu 0 leaves the choice to the kernel.
func render(cidrs []netip.Prefix, mtu int) ([]byte, error) {
	ipam := hostLocal{
		Type: "host-local",
		// Not the default under /var: a restarted node has no pods, so that it must not
		// remember their addresses either.
		DataDir: "/run/cni-ipam-state",
	}
	var plugins []any
	for _, cidr := range cidrs {
		everything := "0.0.0.0/0"
		if cidr.Addr().Is6() {
			everything = "::/0"
			plugins = []any{unique{Type: "unique"}}
		}
		ipam.Routes = append(ipam.Routes, ipamRoute{Dst: everything})
		ipam.Ranges = append(ipam.Ranges, []ipamPool{{Subnet: cidr.String()}})
	}
	out, err := json.MarshalIndent(conflist{
		CNIVersion: "1.1.0",
		Name:       "podnet",
		Plugins: append(plugins,
			// No masquerading: a pod talks to its cluster and its nodes under its own address
			// and to nobody else.
			ptp{Type: "ptp", MTU: mtu, IPAM: ipam},
			portmap{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}},
		),
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// withChained is podnet's own list with what others have added to the one that is there: plugins behind its own, as
// the installers of chained plugins do, and keys. A list that says so already is returned as it is; one that is not podnet's
// is replaced.
func withChained(there, own []byte) ([]byte, error) {
	var was, is map[string]any
	if err := json.Unmarshal(own, &is); err != nil {
		return nil, fmt.Errorf("podnet's own list: %w", err)
	}
	_ = json.Unmarshal(there, &was) // what is no list has no plugins
	all, _ := was["plugins"].([]any)
	ours, _ := is["plugins"].([]any)
	if len(all) < len(ours) || !slices.EqualFunc(all[:len(ours)], ours, func(a, b any) bool { return typeOf(a) == typeOf(b) }) {
		return own, nil
	}
	list := maps.Clone(was)
	maps.Copy(list, is)
	list["plugins"] = slices.Concat(ours, all[len(ours):])
	switch {
	case reflect.DeepEqual(list, was):
		return there, nil
	case reflect.DeepEqual(list, is):
		return own, nil
	}
	out, err := json.MarshalIndent(list, "", "  ")
	return append(out, '\n'), err
}

// typeOf is the type of a plugin, as a list has it.
func typeOf(plugin any) string {
	p, _ := plugin.(map[string]any)
	t, _ := p["type"].(string)
	return t
}

// install puts the configuration where the runtime looks for it, whole or not at
// all, and leaves a file alone that already says the same: each write makes the
// runtime load its network again. What others have chained to it stays. It reports whether it wrote.
func install(dir string, content []byte) (bool, error) {
	path := filepath.Join(dir, conflistName)
	switch old, err := os.ReadFile(path); {
	case err == nil:
		if content, err = withChained(old, content); err != nil {
			return false, err
		}
		if bytes.Equal(old, content) {
			return false, nil
		}
	case !errors.Is(err, os.ErrNotExist):
		return false, err
	}
	// The runtime reads *.conflist, *.conf and *.json in this directory: this is none.
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return false, fmt.Errorf("write CNI configuration: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return false, errors.Join(fmt.Errorf("install CNI configuration: %w", err), os.Remove(tmp))
	}
	return true, nil
}
