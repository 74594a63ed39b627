// SPDX-License-Identifier: Apache-2.0

// Package transport holds the behaviours of what is below HTTP: TLS, TCP, WebSocket.
package transport
