// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9112 section 9.5: "Implementations SHOULD constantly monitor open
// connections for a received closure signal and respond to it as appropriate".
// A request that was on its way when the connection was closed is nobody's fault. Behind an
// answer that said "close" none can be.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pool.no-reuse-after-close",
	Title: "No request is written to a pooled connection whose end was there to be read",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "pools",
			Quote: "A proxy writes no request to a connection after the backend's FIN or GOAWAY was there to be read.",
		},
		{
			Doc: "RFC 9112", Section: "section 9.5", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.5",
			Quote: "Implementations SHOULD constantly monitor open connections for a received closure signal and respond to it as appropriate, since prompt closure of both sides of a connection enables allocated system resources to be reclaimed.",
		},
		{
			Doc: "RFC 9112", Section: "section 9.6", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.6",
			Quote: `A client that receives a "close" connection option MUST cease sending requests on that connection and close the connection after reading the response message containing the "close" connection option.`,
		},
	},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "Such a request is answered by a reset. What may be sent again costs a client its patience; a POST is lost, and nobody dares to say so.",
	Causes: "A pool that hands connections out without having looked whether they are still open, or that does not heed Connection: close in the last reply.",
	Fix:    "Watch idle connections for their end, take a connection out of the pool with a reply that says close, and hand out the youngest first.",

	Topology:   behaviour.Pooled,
	Disrupt:    behaviour.RollingUpdate,
	Traffic:    []load.Profile{behaviour.PooledPosts},
	Checks:     []assertions.Check{noReuseAfterClose()},
	BrokenBy:   []spec.Fault{gateway.ReusesClosed},
	Resolution: 60 * time.Millisecond,
})

// noReuseAfterClose judges that whoever stands before the instances writes no
// request to a connection whose end was there to be read.
//
// The instance ends each connection behind the answer to a request that comes after its D, which says "close" on every second
// one. Whether one request in the first second behind a FIN was on its way is undecidable; a pool that is asked 25 times a second and never
// looks writes many, all through the drain.
func noReuseAfterClose() assertions.Check {
	// Whether a GOAWAY was read is what h2.client-obeys asks.
	check := nothingAsked("requests on connections whose end was there to be read", "FIN or GOAWAY",
		assertions.ConnectionsPerTermination("connections that the instance closed first, or said GOAWAY on"),
		farewell{timeline.ToldByFIN, "its FIN"}, farewell{timeline.ToldByGoAway, "its GOAWAY"})
	check.Expected += `; none at all comes behind an answer that said "close"`
	return check
}
