// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// PROTOCOL-HTTP2, Responses: "Status must be sent in Trailers even if the status
// code is OK." A call that is cut has one by the error code of its RST_STREAM
// (Errors), or by GOAWAY (Connection Management).
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "grpc.streams",
	Title: "gRPC calls end whole, or with a status that says what happened",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "gRPC over HTTP2", Section: "Responses", URL: "https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses",
			Quote: "Status must be sent in Trailers even if the status code is OK.",
		},
		{
			Doc: "gRPC over HTTP2", Section: "Errors", URL: "https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#errors",
			Quote: "The following mapping from RST_STREAM error codes to GRPC error codes is applied.",
		},
		{
			Doc: "gRPC over HTTP2", Section: "GOAWAY Frame", URL: "https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#goaway-frame",
			Quote: "Servers should send GOAWAY before terminating a connection to reliably inform clients which work has been accepted by the server and is being executed.",
		},
	},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C, spec.GRPC},

	Why:    "A client sends a call again, gives up or goes on by its status alone. Without one it can't know whether its messages were all, and half a stream that looks whole is data that is lost without a word.",
	Causes: "A proxy that ends streams by END_STREAM and drops the trailers, answers with an HTTP status or a page of its own, or closes the connection under running streams.",
	Fix:    "Let running calls end. Cut what is left with RST_STREAM, or with grpc-status 14 (UNAVAILABLE) in trailers, and say GOAWAY before the connection goes.",

	Topology: behaviour.Calling, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Unary}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.ServerStream, Takes: 3 * time.Second}, Rate: 3},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Bidi, Takes: 3 * time.Second}, Rate: 3},
		// Of so many some cross the GOAWAY on each instance.
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Unary, Delay: behaviour.RaceDelay}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Bidi, Takes: 3 * time.Second, Delay: behaviour.RaceDelay}, Rate: 3},
	},
	Checks:     []assertions.Check{assertions.CallsSayTheirEnd()},
	BrokenBy:   []spec.Fault{gateway.CallsWithoutStatus, gateway.CallsLoseMessage, sidecar.HurriesOut, nodeproxy.CutsOnceDeleted},
	Resolution: 60 * time.Millisecond,
})
