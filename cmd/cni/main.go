// SPDX-License-Identifier: Apache-2.0

// Command cni is the mesh's CNI plugin, which a node's container runtime starts for each pod's begin
// and end, and every 5 s for nothing: so it is a program of its own, a small one: it links
// neither gRPC nor a client of Kubernetes.
package main

import (
	"os"

	"github.com/lastcall-dev/lastcall/fixtures/cni"
)

func main() { os.Exit(cni.Main()) }
