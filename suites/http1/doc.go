// SPDX-License-Identifier: Apache-2.0

// Package http1 holds the behaviours of what a server and a proxy owe clients of HTTP/1.1.
package http1
