// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// talksNearAndFar are opaque streams, also over a path on which what one side
// says is still under way when the other ends the stream.
var talksNearAndFar = []load.Profile{
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}, // what the baseline is taken from
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 3 * time.Second}, Rate: 5},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 3 * time.Second, Delay: behaviour.RaceDelay}, Rate: 3},
}
