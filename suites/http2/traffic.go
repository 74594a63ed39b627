// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/load"
)

// usedAndIdle are connections that are used all the time, and some that are not,
// with TLS and without: what is said on each of them.
var usedAndIdle = []load.Profile{
	{Path: load.Direct, Protocol: load.H2C, Conns: load.Reused, Op: load.Get, Rate: 25},
	{Path: load.Direct, Protocol: load.H2, Conns: load.Reused, Op: load.Get, Rate: 15},
	{Path: load.Direct, Protocol: load.H2C, Conns: load.New, Op: load.Idle, Rate: 2, Takes: 20 * time.Second},
	{Path: load.Direct, Protocol: load.H2, Conns: load.New, Op: load.Idle, Rate: 2, Takes: 20 * time.Second},
}

// callsBehind are calls through the gateway before what is ended.
var callsBehind = []load.Profile{
	{Path: load.Service, Protocol: load.H2C, Conns: load.Reused, Op: load.Unary, Rate: 25},
	{Path: load.Service, Protocol: load.H2C, Conns: load.Reused, Op: load.ServerStream, Rate: 4, Takes: 2 * time.Second},
}
