// SPDX-License-Identifier: Apache-2.0

// Package node has the behaviours of node proxies, in the area node: how each of the three endings goes that
// such a proxy knows, and its restart.
package node
