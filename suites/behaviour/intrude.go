// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// podLoopback is what a pod calls itself.
const podLoopback = "127.0.0.1"

// Trespass tries, from a client's pod, to reach a control of a pod in the mesh: at the pod's own
// address, where the connection is carried by both sidecars, and through a tunnel of our own that
// asks for the pod's loopback. It takes an answer to have been there: the sidecars on the way accept
// for whoever is behind them. tunnel is a stream of the protocol HBONE to that pod.
func Trespass(ctx context.Context, asks func(context.Context, load.Stream, string) (refused string, err error), tunnel load.Stream, ip string, port int, path string) ([]disrupt.Try, error) {
	number := strconv.Itoa(port)
	inside := tunnel
	inside.Tunnel.To = net.JoinHostPort(podLoopback, number)
	var out []disrupt.Try
	for _, one := range []struct {
		to string
		by load.Stream
	}{
		{net.JoinHostPort(ip, number), load.Stream{Addr: net.JoinHostPort(ip, number), Profile: load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1}}}},
		{inside.Tunnel.To + " by CONNECT at " + tunnel.Addr, inside},
	} {
		t := disrupt.Try{At: timeline.Monotonic(), To: one.to}
		refused, err := asks(ctx, one.by, path)
		if err != nil {
			return nil, fmt.Errorf("asking %s from another pod: %w", one.to, err)
		}
		if refused != "" {
			t.Err = errors.New(refused)
		}
		out = append(out, t)
	}
	return out, nil
}
