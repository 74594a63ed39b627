// SPDX-License-Identifier: Apache-2.0

// Package bounding knows which capabilities a process of this host can never
// hold, and takes them out of what an OCI runtime is asked to grant.
//
// A container engine that is asked for --privileged names every capability of
// the kernel. In many VMs and nested containers the bounding set lacks one or
// two of them, and then runc refuses the container as a whole ("unable to apply
// caps: operation not permitted").
package bounding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/sys/capability"
)

// Set tells for a capability, named as in an OCI spec ("CAP_SYS_RESOURCE"),
// whether the bounding set holds it. A name that the kernel does not know is
// not in the map.
type Set map[string]bool

// Current reads the bounding set of the calling process.
func Current() (Set, error) {
	supported, err := capability.ListSupported()
	if err != nil {
		return nil, fmt.Errorf("list the kernel's capabilities: %w", err)
	}
	caps, err := capability.NewPid2(0)
	if err != nil {
		return nil, fmt.Errorf("prepare to read the bounding set: %w", err)
	}
	if err := caps.Load(); err != nil {
		return nil, fmt.Errorf("read the bounding set: %w", err)
	}
	set := Set{}
	for _, c := range supported {
		set["CAP_"+strings.ToUpper(c.String())] = caps.Get(capability.BOUNDING, c)
	}
	return set, nil
}

// Lacking names what the kernel knows and the set does not hold, sorted.
func (s Set) Lacking() []string {
	var names []string
	for name, held := range s {
		if !held {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// StripConfig takes an OCI runtime's config.json and returns it without the
// process capabilities that the set lacks; removed names them, without repeats.
// Every other field passes unchanged, numbers included.
func (s Set) StripConfig(config []byte) (stripped []byte, removed []string, err error) {
	return s.strip(config, func(root map[string]any) map[string]any {
		process, _ := root["process"].(map[string]any)
		return process
	})
}

// StripProcess is StripConfig for the process.json of `runc exec --process`,
// which holds the process object alone.
func (s Set) StripProcess(process []byte) (stripped []byte, removed []string, err error) {
	return s.strip(process, func(root map[string]any) map[string]any { return root })
}

func (s Set) strip(in []byte, process func(map[string]any) map[string]any) ([]byte, []string, error) {
	decoder := json.NewDecoder(bytes.NewReader(in))
	// rlimits are 64-bit: a float would round them.
	decoder.UseNumber()
	root := map[string]any{}
	if err := decoder.Decode(&root); err != nil {
		return nil, nil, fmt.Errorf("decode the OCI spec: %w", err)
	}
	capabilities, _ := process(root)["capabilities"].(map[string]any)
	gone := map[string]bool{}
	for kind, value := range capabilities {
		list, ok := value.([]any)
		if !ok {
			continue
		}
		kept := make([]any, 0, len(list))
		for _, item := range list {
			name, _ := item.(string)
			if held, known := s[name]; known && !held {
				gone[name] = true
				continue
			}
			kept = append(kept, item)
		}
		capabilities[kind] = kept
	}
	if len(gone) == 0 {
		return in, nil, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(root); err != nil {
		return nil, nil, fmt.Errorf("encode the OCI spec: %w", err)
	}
	removed := make([]string, 0, len(gone))
	for name := range gone {
		removed = append(removed, name)
	}
	slices.Sort(removed)
	return out.Bytes(), removed, nil
}
