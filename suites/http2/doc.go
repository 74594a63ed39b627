// SPDX-License-Identifier: Apache-2.0

// Package http2 holds the behaviours of what a server and a proxy owe clients of HTTP/2.
package http2
