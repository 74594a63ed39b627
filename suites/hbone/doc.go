// SPDX-License-Identifier: Apache-2.0

// Package hbone holds the behaviours of tunnels, as a client sees them that opens its own: how they
// are told to go, how they end, and what becomes of the connections in them (ADR 0019); and of the other
// end of tunnels, as peers see it that misbehave (ADR 0023).
package hbone
