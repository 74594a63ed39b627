// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// The flows of clients of tunnels that have certificates of their own, in a recording of PeersMisbehave, with which they begin.
// They differ in how long their connections last.
var (
	// RunningOut is of a client whose certificate runs out while connections are in its tunnels, and that never has another one.
	RunningOut = certified(6 * time.Second)
	// Renewing is of a client with whose certificate it is the same, and that shows another one before that.
	Renewing = certified(7 * time.Second)
	// Renewed is of the same client, with the other one.
	Renewed = certified(3 * time.Second)
)

// certified are connections that last, two in a second, in few tunnels.
func certified(takes time.Duration) load.Profile {
	return load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Shared, Op: flow.Slow, Takes: takes}, Rate: 2}
}

// Certified says whether a flow is of a client that has a certificate of its own.
func Certified(f flow.Flow) bool {
	return f == RunningOut.Flow || f == Renewing.Flow || f == Renewed.Flow
}
