// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: GOAWAY is about one connection. A proxy has one with its
// client and another with the app; what it makes of the app's is its own affair,
// as long as nothing is lost.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.app-goaway",
	Title: "Behind a proxy, no call is lost by an app's GOAWAY",
	Level: spec.May,
	Refs: []spec.Ref{
		{
			Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
			Quote: "GOAWAY allows an endpoint to gracefully stop accepting new streams while still finishing processing of previously established streams.",
		},
		{
			Doc: "project", Section: "GOAWAY is hop by hop",
			Quote: "An app says GOAWAY to whoever it talks to, and that is the proxy. Whether the proxy tells its clients is not judged; what they lose is.",
		},
	},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C, spec.GRPC},

	Why:    "An app that drains as it should says GOAWAY long before it goes. If the proxy before it makes a cut of that, the app's care costs more calls than a kill.",
	Causes: "A proxy that closes the upstream connection at its GOAWAY under the streams that run, or resets the clients' streams with it.",
	Fix:    "Let the streams that run end on their connection, and open the next ones on another.",

	Topology:   behaviour.Pooled,
	Disrupt:    behaviour.RollingUpdate,
	Traffic:    callsBehind,
	Checks:     []assertions.Check{assertions.NothingLostAtGoAway()},
	BrokenBy:   []spec.Fault{gateway.CutsAtGoAway},
	Resolution: 60 * time.Millisecond,
})
