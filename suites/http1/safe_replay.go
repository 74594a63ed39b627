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

// RFC 9110 section 9.2.2: "A proxy MUST NOT automatically retry non-idempotent
// requests." What the backend never got is not retried when it is sent again.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "http1.safe-replay",
	Title: "A POST never runs twice, whatever becomes of the connection to its backend",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "RFC 9110", Section: "section 9.2.2", URL: "https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2",
			Quote: "A proxy MUST NOT automatically retry non-idempotent requests.",
		},
		{
			Doc: "RFC 9110", Section: "section 9.2.2", URL: "https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2",
			Quote: "A client SHOULD NOT automatically retry a request with a non-idempotent method unless it has some means to know that the request semantics are actually idempotent, regardless of the method, or some means to detect that the original request was never applied.",
		},
	},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "An order that is placed twice is worse than one that failed: its client was told that all went well.",
	Causes: "A retry policy that covers resets for all methods, or a proxy that takes each connection that broke for one on which nothing was done.",
	Fix:    "Send again only what is idempotent, or what was surely not processed: where the connection was refused, or nothing was written. Answer the rest with 502.",

	Topology: behaviour.Pooled,
	Disrupt:  behaviour.RollingUpdate,
	Traffic: []load.Profile{
		behaviour.PooledPosts,
		// Those take longer than an instance has from its D to its deadline.
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Post, Takes: 11 * time.Second}, Rate: 3},
	},
	Checks:     []assertions.Check{assertions.ReplaysSafely()},
	BrokenBy:   []spec.Fault{gateway.ReplaysPosts},
	Resolution: 60 * time.Millisecond,
})
