// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
)

// serviceBudget is how long the Service may take to reach every pod.
const serviceBudget = time.Minute

// explore waits until the Service reaches every pod from the clients' node, as
// the dials of a scout of its own address show. The clients must not dial
// earlier. A SYN for a Service that kube-proxy is just writing down leaves a
// conntrack entry without a translation, or with that of a pod that is not
// there yet; it lives for two minutes, and a later connection that happens to
// get the same source port falls into it: a loss that no pod and no rollout is
// to blame for. And connections that are kept would all land on the first pods
// that the Service knew.
func (g *ground) explore(ctx context.Context, scout deploy.Probe) error {
	s := g.stage
	up, err := g.scope.Ready(ctx, s.cs, scoutName, 1, upBudget)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	reached := map[string]bool{}
	addr, dial := s.reach(g.scope.Namespace, up[0], scout.HostPort)
	// The scout's samples stand in the timeline, because the ledger has its
	// requests too; no check reads its stream.
	g.scout, err = follow(ctx, scoutName, addr, dial, s.client, func(r timeline.Record, offset time.Duration) {
		g.sink.Emit(r, offset)
		if r.Sample != nil && !r.Sample.Failed() {
			mu.Lock()
			defer mu.Unlock()
			reached[r.Sample.Server] = true
		}
	}, func(error) {})
	if err != nil {
		return err
	}
	look := load.Profile{Path: load.Service, Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Rate: 20}
	if err := g.scout.Start(ctx, g.stream("scout", look, g.service)); err != nil {
		return err
	}
	err = disrupt.Await(ctx, serviceBudget, "the Service to reach every pod", func(context.Context) (bool, string, error) {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, t := range g.targets {
			if reached[t.UID] {
				n++
			}
		}
		return n == len(g.targets), fmt.Sprintf("%d of %d pods answered through it", n, len(g.targets)), nil
	})
	if err != nil {
		return err
	}
	return g.scout.Stop(ctx)
}
