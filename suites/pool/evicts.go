// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
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
			Quote: "A second after a backend has exited, no process of the proxy holds a socket to it. Until then its FIN or RST has come on each of them.",
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
	Checks:     []assertions.Check{Evicts()},
	BrokenBy:   []spec.Fault{gateway.KeepsPool},
	Resolution: 60 * time.Millisecond,
})

// evictWithin is how long after an instance's exit a pool may still hold sockets
// to it. Their FINs have come by then, and a close takes no time: no proxy that was tried had one at
// the first look behind the exit, a quarter of a second later at most.
const evictWithin = time.Second

// Evicts judges that whoever stands before the instances keeps no socket to
// one that is gone. What sockets there are, the stage looks at many times a
// second (timeline.Sockets). A successor may have its predecessor's address: a
// socket that was there before the exit is the predecessor's. own are floors, by their
// names, that take the place of the check's.
func Evicts(own ...assertions.Floor) assertions.Check {
	return assertions.Eviction{
		What: "sockets to an instance", Holder: "the gateway", After: "its exit", Clock: "exit", Within: evictWithin,
		Gone: func(_ assertions.Case, t assertions.Ending) assertions.Instant { return t.Exit },
		Stood: assertions.Floor{Per: "termination", Name: "sockets to the instance at its D", N: 1,
			Reason: "a proxy may have all its requests on one connection to each backend",
		}.OrOwn(own),
		Looks: assertions.Floor{Per: "termination", Name: "looks at the sockets later than that after its exit", N: 1,
			Reason: "one look tells of all sockets that there are",
		}.OrOwn(own),
		Also: ownCount,
	}.Check()
}

// ownCount says what the gateway's own gauge of its pool said at the last look, beside
// what was counted; "" where it has none.
func ownCount(tl *timeline.Timeline) string {
	said := tl.EventsOf(timeline.Gauge, "")
	if len(said) == 0 {
		return ""
	}
	last := said[len(said)-1]
	if why := last.Attrs["error"]; why != "" {
		return "; its own gauge could not be read at the last look: " + why
	}
	var at time.Duration
	counted := 0
	for _, e := range tl.EventsOf(timeline.Sockets, last.Subject) {
		if e.At > last.At {
			break
		}
		if e.At != at {
			at, counted = e.At, 0
		}
		counted += len(e.Held())
	}
	return fmt.Sprintf("; at the last look %s had %s to all of its backends, and its own gauge said %s", last.Name, assertions.Plural(counted, "socket", "sockets"), last.Attrs["value"])
}
