// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// No norm says what becomes of half a header, or of a connection that has not had its
// first request. Proxies differ: some answer the request when it comes, some close
// without an answer. Either is fine, as
// long as both sides know which it was.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "http1.half-header",
	Title: "A request that comes late on a connection of before the drain, half of it or all, is answered, or closed on without a byte",
	Level: spec.May,
	Refs: []spec.Ref{{
		Doc: "project", Section: "connections that were open before D",
		Quote: "A connection that was open before D and sends its first request, or the rest of its header, after it is answered, or closed without a byte; never both sides wrong.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "A client that was closed on without a byte may send again elsewhere, if nothing was begun. Where a backend has done the work meanwhile, that is a second time; where half of an answer came, nobody knows.",
	Causes: "To the server a connection with half a header is idle, so that its drain closes it; to the worker that reads it, it is a request, which is passed on when the rest comes.",
	Fix:    "Stop reading before you close. What was read to the end of its header is answered; of anything else nothing is passed on.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.HalfHeader, Takes: 3 * time.Second}, Rate: 3},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Belated, Takes: 3 * time.Second}, Rate: 3},
	},
	Checks:     []assertions.Check{assertions.AnswersHalfHeaders()},
	BrokenBy:   []spec.Fault{gateway.DropsBelated},
	Resolution: 60 * time.Millisecond,
})
