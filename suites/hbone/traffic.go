// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// The flows through tunnels of our own client's, which it dials at each instance. Of who says nothing of
// when its app accepts no more the new connections within P are judged: 90 of each kind, at the rates
// and the P that are here.
var (
	// opened are tunnels for one connection each.
	opened = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 30}
	// used are tunnels that are kept, and carry one short connection after the other.
	used = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}, Rate: 30}
	// streaming are tunnels with a connection that lasts: what is begun last before the app accepts no
	// more is in the middle of its answer when the sidecar of behaviour.Tunnelled goes.
	streaming = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 6 * time.Second}, Rate: 3}
	// idle are tunnels on which nothing is said for longer than from D to the sidecar's end. Of who cuts
	// 20 s after D some 10 are left then that began before D.
	idle = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Idle, Takes: 25 * time.Second}, Rate: 2}
)

// all are tunnels in each state in which a sidecar's end can find them, but those that say nothing.
var all = []load.Profile{opened, used, streaming}
