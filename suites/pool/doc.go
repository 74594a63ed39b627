// SPDX-License-Identifier: Apache-2.0

// Package pool holds the behaviours of what a proxy owes the connections that it
// keeps to its backends.
package pool
