// SPDX-License-Identifier: Apache-2.0

package pod

import (
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

// inflightTakes is long enough for many to be in flight at any instant, and
// shorter than any drain.
const inflightTakes = 2 * time.Second

// RFC 9112 section 8: "A message that uses a valid Content-Length is
// incomplete if the size of the message body received (in octets) is less
// than the value given by Content-Length."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.inflight-completes",
	Title: "Requests that are in flight when the drain begins are completed, byte for byte",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Kubernetes documentation", Section: "Pod Termination Flow", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-flow",
		Quote: "Pods that shut down slowly should not continue to serve regular traffic and should start terminating and finish processing open connections.",
	}, {
		Doc: "RFC 9112", Section: "8", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-8",
		Quote: "A message that uses a valid Content-Length is incomplete if the size of the message body received (in octets) is less than the value given by Content-Length.",
	}},
	Profile: spec.App,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.HTTP},

	Why:    "A download that is cut, an upload that is dropped half-way or a request that was accepted and never answered is lost work, and for what is not idempotent nobody knows whether it was done. (New connections within P are another matter: see pod.accept-after-sigterm.)",
	Causes: "The process exits at SIGTERM, or its shutdown closes connections instead of waiting for the requests on them; sometimes replies are waited for and uploads are not.",
	Fix:    "Track requests in flight, and leave only when none is left. Make terminationGracePeriodSeconds longer than the longest of them.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Chunked, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Upload, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Continue, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Upload, Takes: inflightTakes}, Rate: 6},
	},
	Checks:     []assertions.Check{assertions.CompletesInflight()},
	BrokenBy:   []spec.Fault{echo.CutBodies, echo.DropUploads, echo.CorruptBodies, echo.ExitOnSigterm, sidecar.HurriesOut, nodeproxy.CutsOnceDeleted},
	Resolution: 60 * time.Millisecond,
})
