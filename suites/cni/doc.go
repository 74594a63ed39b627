// SPDX-License-Identifier: Apache-2.0

// Package cni has the behaviours of a mesh's CNI plugin, in the area cni: what the end of a pod hangs on.
package cni
