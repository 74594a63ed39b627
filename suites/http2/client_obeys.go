// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Receivers of a GOAWAY frame MUST NOT open additional
// streams on the connection". A proxy is a receiver too: of its backends'.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.client-obeys",
	Title: "As a client, a proxy opens no stream after it received GOAWAY",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Receivers of a GOAWAY frame MUST NOT open additional streams on the connection, although a new connection can be established for new streams.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C, spec.GRPC},

	Why:    "A backend that drains waits for its streams to end. A proxy that goes on opening new ones holds it until its deadline, and loses with it what was opened last.",
	Causes: "A client library whose pool hears of GOAWAY only when the connection ends, or a proxy that keeps one connection for each backend whatever is said on it.",
	Fix:    "With the first GOAWAY, take the connection out of the pool, let its streams end, and open the next stream on another.",

	Topology:   behaviour.Pooled,
	Disrupt:    behaviour.RollingUpdate,
	Traffic:    callsBehind,
	Checks:     []assertions.Check{assertions.ObeysGoAway()},
	BrokenBy:   []spec.Fault{gateway.IgnoresGoAway},
	Resolution: 60 * time.Millisecond,
})
