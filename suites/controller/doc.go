// SPDX-License-Identifier: Apache-2.0

// Package controller holds the behaviours of a mesh's control plane: who asks its webhook, its CA and
// its discovery is a client as any other, and has as long to hear of its end.
package controller
