// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "A server that is attempting to gracefully shut down a
// connection SHOULD send an initial GOAWAY frame with the last stream identifier set
// to 2^31-1 and a NO_ERROR code."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.goaway-first-max",
	Title: "The first GOAWAY on a tunnel that ends with its pod leaves open which streams are served",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "A server that is attempting to gracefully shut down a connection SHOULD send an initial GOAWAY frame with the last stream identifier set to 2^31-1 and a NO_ERROR code.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A CONNECT that crosses the GOAWAY is a connection of somebody's app. With a real last stream ID it is turned away, and an app whose proxy does not open it again sees it fail.",
	Causes: "A proxy that names the last stream at once, as a server does that shuts down for an error.",
	Fix:    "Say 2^31-1 and NO_ERROR first, serve what comes until the answer to a PING, and name the last stream then.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{used, streaming, idle},
	Checks:     []assertions.Check{assertions.FirstGoAwayMax()},
	BrokenBy:   []spec.Fault{datapath.GoAwayNamesAtOnce},
	Resolution: 60 * time.Millisecond,
})
