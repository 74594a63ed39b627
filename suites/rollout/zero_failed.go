// SPDX-License-Identifier: Apache-2.0

// Package rollout holds the behaviours of a rolling update.
package rollout

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Kubernetes documentation, Performing a Rolling Update: "A rolling update
// allows a Deployment update to take place with zero downtime."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "rollout.zero-failed",
	Title: "A rolling update under load fails no request, and runs none twice that may run only once",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Kubernetes documentation", Section: "Performing a Rolling Update", URL: "https://kubernetes.io/docs/tutorials/kubernetes-basics/update/update-intro/",
		Quote: "A rolling update allows a Deployment update to take place with zero downtime. It does this by incrementally replacing the current Pods with new ones.",
	}},
	Profile: spec.App,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "This is what people mean by a zero-downtime deployment, and what nearly nobody measures: every request, on new and on reused connections, from the first SIGTERM to the last exit and P after it. One that fails is an error that a user sees; a POST that runs twice may charge a customer twice.",
	Causes: "Anything that the other behaviours test: a listener that closes at SIGTERM, work that is cut, idle connections closed under a request, readiness that comes before the pod can serve, a service network that takes longer than the pod accepts.",
	Fix:    "Look at when it was. `connection refused` between D and D+P: the listener went too early (pod.accept-after-sigterm). `connection refused` or `no route to host` after the exit: the service network lags (endpoints.prefers-ready). Refused while a new pod comes: it was ready before it could serve. `body cut short`, `connection reset`, `connection closed`: work was cut (pod.inflight-completes), or an idle connection was closed under a request. `stream not processed (GOAWAY)`: the client may send it again; here that counts as a failure. `done more than once`: something sends requests again (a proxy's or mesh's retry policy, a client library); let it repeat only what is idempotent, or what the server said it did not process.",

	Topology:   behaviour.Rolling,
	Disrupt:    behaviour.RollingUpdate,
	Traffic:    updating,
	Checks:     []assertions.Check{assertions.ZeroFailed(), assertions.NothingTwice()},
	BrokenBy:   []spec.Fault{echo.ExitOnSigterm, echo.CloseListener, echo.DuplicateWork, echo.DropsAnswers, sidecar.RefusesAtSigterm, nodeproxy.CutsOnceDeleted},
	Resolution: 60 * time.Millisecond,
	// 1,000 requests/s of the probe, half of them from outside the cluster, beside
	// what `hey -c 100 -q 10 -z 300s` makes.
	Full: &behaviour.Extent{
		Topology: behaviour.RollingLong,
		Pressure: 1000,
		Traffic: slices.Concat(updating, []load.Profile{
			{Flow: flow.Flow{Path: flow.NodePort, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 150},
			{Flow: flow.Flow{Path: flow.NodePort, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 150},
			{Flow: flow.Flow{Path: flow.NodePort, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 50},
			{Flow: flow.Flow{Path: flow.NodePort, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 150},
		}),
		Checks: []assertions.Check{assertions.ZeroFailedAtLength(), assertions.ZeroFailedOutside(), assertions.NothingTwice()},
	},
})

// updating is what is asked of an app while it is updated.
var updating = []load.Profile{
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 150},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 30},
	// Loopback hides the race between a request and the close of the kept
	// connection that it goes over: with 20 ms each way both pass on the way. At this rate each of a pool's
	// connections is in that race for a fourth of the time, so that who ends some of them under a request is seen to.
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 100},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Upload, Takes: 500 * time.Millisecond}, Rate: 20},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 50},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 120},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 30},
}
