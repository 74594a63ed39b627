// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// usedAndIdle are connections that are used all the time, and some that are not,
// with TLS and without: what is said on each of them.
var usedAndIdle = []load.Profile{
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
}

// racing are streams over a path as long as one between cities, with TLS and without: what crosses a GOAWAY on its way.
var racing = []load.Profile{
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 200},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.Shared, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 80},
}

// callsBehind are calls through the gateway before what is ended.
var callsBehind = []load.Profile{
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Unary}, Rate: 25},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.ServerStream, Takes: 2 * time.Second}, Rate: 4},
}
