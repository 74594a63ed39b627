// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9112 section 9.5: "Implementations SHOULD constantly monitor open
// connections for a received closure signal and respond to it as appropriate,
// since prompt closure of both sides of a connection enables allocated system
// resources to be reclaimed." The time, and the MUST, are the project's.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pool.evicts",
	Title: "A pool holds no socket to a backend that is gone",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "pools",
			Quote: "Three seconds after a backend has exited, no process of the proxy holds a socket to it. Until then its FIN or RST has come on each of them.",
		},
		{
			Doc: "RFC 9112", Section: "section 9.5", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.5",
			Quote: "Implementations SHOULD constantly monitor open connections for a received closure signal and respond to it as appropriate, since prompt closure of both sides of a connection enables allocated system resources to be reclaimed.",
		},
	},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "Each roll-out leaves as many dead sockets as the pool was deep. They take file descriptors until the proxy can accept nobody, and each is a request that may be written into the void.",
	Causes: "A pool that looks at its connections only when it next uses one: of a backend that is gone it never does. An idle timeout of hours, or none.",
	Fix:    "Read from idle connections too, and close each as soon as its peer has. Empty the pool of a backend that leaves the endpoints.",

	Topology:   behaviour.Pooled,
	Disrupt:    behaviour.RollingUpdate,
	Traffic:    []load.Profile{behaviour.PooledPosts},
	Checks:     []assertions.Check{assertions.EvictsPool()},
	BrokenBy:   []spec.Fault{gateway.KeepsPool},
	Resolution: 60 * time.Millisecond,
})
