// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command unique is the first CNI plugin of podnet's list where pods have IPv6. The addresses that a node gives to its pods are unique,
// because they are its own, so that nobody asks the link for another owner (RFC 4862, section 5.4: Duplicate Address Detection). The plugin
// that makes the link waits for the end of that, 1.5 s in the mean, in each pod's start.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"
)

// acceptDAD is what links that come have of it, in the network namespace of who reads it. Kernels without IPv6 have none.
const acceptDAD = "/proc/sys/net/ipv6/conf/default/accept_dad"

func main() {
	nothing := func(*skel.CmdArgs) error { return nil }
	skel.PluginMainFuncs(skel.CNIFuncs{Add: add, Del: nothing, Check: nothing, GC: nothing, Status: nothing}, version.All, "unique: no duplicate address detection")
}

func add(args *skel.CmdArgs) error {
	var conf types.PluginConf
	if err := json.Unmarshal(args.StdinData, &conf); err != nil {
		return fmt.Errorf("the configuration: %w", err)
	}
	if err := accept(args.Netns); err != nil {
		return err
	}
	return types.PrintResult(&current.Result{CNIVersion: current.ImplementedSpecVersion}, conf.CNIVersion)
}

// accept takes addresses for unique in a network namespace. The thread that went there ends with its goroutine: a plugin that is found in
// a pod's own namespace behind its ADD has failed (skel).
func accept(netns string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			fd, err := unix.Open(netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("network namespace %s: %w", netns, err)
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("network namespace %s: %w", netns, err)
			}
			if err := os.WriteFile(acceptDAD, []byte("0"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}()
	}()
	return <-done
}
