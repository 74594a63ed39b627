// SPDX-License-Identifier: Apache-2.0

// Package sidecar holds the behaviours of a data path that stands in its app's own pod: it serves as
// long as the app does, in both directions, and leaves with it.
package sidecar
