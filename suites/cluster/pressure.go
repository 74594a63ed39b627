// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// pressureAtMost bounds pressure that nobody ends, because the run was killed.
const pressureAtMost = time.Hour

// press begins the closed-loop load beside the streams, through the Service, where the
// scenario has some.
func (g *ground) press(ctx context.Context) error {
	p := g.scenario.Pressure
	if p == nil {
		return nil
	}
	svc := g.ways.services[viewOf(flow.Service)]
	return g.probe.Pressure(ctx, control.Pressure{
		Name: work.Pressure, Addr: g.at(svc.Spec.ClusterIP, flow.HTTP1), Conns: p.Conns, QPS: p.QPS,
		Seconds: pressureAtMost.Seconds(),
	})
}

// unserved says whether an event shows that an endpoint of the app stops serving.
func unserved(e timeline.Event) bool {
	return e.Kind == timeline.Endpoint && e.Attrs["serving"] == "false" && e.Attrs["terminating"] == "true"
}

// relieve ends the pressure at the first endpoint that stops serving, where the scenario
// says so.
func (g *ground) relieve(e timeline.Event) {
	if p := g.scenario.Pressure; p == nil || !p.UntilUnserved || !unserved(e) {
		return
	}
	g.relieved.Do(func() {
		g.tasks.Go(func() {
			if err := g.probe.StopPressure(g.ctx, "the first endpoint stopped serving"); err != nil && g.ctx.Err() == nil {
				g.lost("probe", err)
			}
		})
	})
}
