// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/balancer"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// frontBudget is how long the instances may take to be healthy for it.
const frontBudget = 30 * time.Second

// balance starts a load balancer before the system, as a cloud has one, where traffic goes
// through one: it asks each instance for its health, and hears of nothing else. It waits until
// that has found all instances healthy.
func (g *ground) balance(ctx context.Context) error {
	if !slices.ContainsFunc(g.scenario.Traffic, func(p load.Profile) bool { return p.Path == flow.Balanced }) {
		return nil
	}
	f, err := balancer.New(balancer.Config{
		Listen: "127.0.0.1:0", Period: behaviour.BalancerPeriod, Threshold: behaviour.BalancerThreshold, Chosen: g.chose(timeline.ByBalancer),
		Emit: func(e timeline.Event) { g.sink.Emit(timeline.Record{Event: &e}, 0) },
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.lb = f
	g.mu.Unlock()
	g.present()
	all := len(g.fleet.Instances())
	return disrupt.Await(ctx, frontBudget, "the load balancer to find all instances healthy", func(context.Context) (bool, string, error) {
		in := f.Healthy()
		return len(in) >= all, fmt.Sprintf("healthy: %d of %d", len(in), all), nil
	})
}

// present shows the load balancer all instances that there are.
func (g *ground) present() {
	g.mu.Lock()
	f := g.lb
	g.mu.Unlock()
	if f == nil {
		return
	}
	for _, i := range g.fleet.Instances() {
		if b, ok := i.Front(); ok {
			f.Put(b)
		}
	}
}
