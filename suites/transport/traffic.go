// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// talksNearAndFar are opaque streams, also over a path on which what one side
// says is still under way when the other ends the stream.
var talksNearAndFar = []load.Profile{
	{Path: load.Direct, Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Rate: 20}, // what the baseline is taken from
	{Path: load.Direct, Protocol: load.TCP, Conns: load.New, Op: load.Talk, Rate: 5, Takes: 3 * time.Second},
	{Path: load.Direct, Protocol: load.TCP, Conns: load.New, Op: load.Talk, Rate: 3, Takes: 3 * time.Second, Delay: behaviour.RaceDelay},
}
