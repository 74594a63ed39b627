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

// RFC 8446 section 6.1: "This alert notifies the recipient that the sender will not
// send any more messages on this connection." The FIN may come much later: the same
// section has each side end its own half. A request that was on its way is nobody's fault.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pool.heeds-close-notify",
	Title: "No request is written to a pooled connection in TLS whose close_notify was there to be read",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "pools",
			Quote: "A proxy writes no request to a connection after the backend's close_notify was there to be read, whether its FIN has come or not.",
		},
		{
			Doc: "RFC 8446", Section: "section 6.1", URL: "https://www.rfc-editor.org/rfc/rfc8446#section-6.1",
			Quote: "This alert notifies the recipient that the sender will not send any more messages on this connection.",
		},
	},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1, spec.BackendTLS},

	Why:    "Who has said close_notify never answers again. A request that is written there waits for its timeout, or for the FIN: and what may not be sent again is lost.",
	Causes: "A pool that watches its sockets and not what is said in them: the alert is read when the next answer is waited for, and not before. A client that lets TLS end with the FIN.",
	Fix:    "Read from idle connections in TLS too, and take one out of the pool with its close_notify.",

	Topology:   behaviour.Pooled,
	Disrupt:    behaviour.RollingUpdate,
	Traffic:    []load.Profile{behaviour.PooledInTLS, behaviour.PooledPosts}, // the baseline is taken from the second
	Checks:     []assertions.Check{heedsCloseNotify()},
	BrokenBy:   []spec.Fault{gateway.ReusesNotified},
	Resolution: 60 * time.Millisecond,
})

// heedsCloseNotify judges that whoever stands before the instances writes no request to
// a connection in TLS whose close_notify was there to be read.
//
// The instance says close_notify behind an answer that does not say close, and holds its FIN
// back: who waits for either has not understood.
func heedsCloseNotify() assertions.Check {
	return nothingAsked("requests on connections in TLS whose close_notify was there to be read", "close_notify",
		assertions.Floor{
			Per: "termination", Name: "connections in TLS that the instance closed first", N: 2,
			Reason: "who takes no turns asks one of two backends less than the other, and each request that it takes after D meets one, one in 1.3 s on average: who uses it for the next one does so, most of the time, when nothing can have crossed its end",
		},
		farewell{timeline.ToldByCloseNotify, "its close_notify"})
}
