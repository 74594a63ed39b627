// SPDX-License-Identifier: Apache-2.0

// Package gateway holds the behaviours of what a gateway owes its load balancer.
package gateway
