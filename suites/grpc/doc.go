// SPDX-License-Identifier: Apache-2.0

// Package grpc holds the behaviours of what a server and a proxy owe clients of gRPC.
package grpc
