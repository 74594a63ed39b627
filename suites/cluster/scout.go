// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/probe"
)

// serviceBudget is how long the Service may take to reach every pod. Behind an outage of the control plane, which ends a
// recording before, a node's kube-proxy may need 45 s to see that its watch is dead (client-go's health check of HTTP/2: 30 s and 15 s).
const serviceBudget = 2 * time.Minute

// explore waits until each Service reaches every pod that it should, as the
// dials of a scout of its own address show, on the clients' node. The clients must not dial
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
	seen := &reached{by: map[flow.Stream]map[string]bool{}, blind: map[flow.Stream]int{}}
	addr, dial := s.reach(g.scope.Namespace, up[0], scout.HostPort)
	// The scout's samples stand in the timeline, because the ledger has its
	// requests too; no check reads its streams.
	take := func(r timeline.Record, offset time.Duration) {
		g.sink.Emit(r, offset)
		if r.Sample != nil {
			seen.note(*r.Sample, g.reached(*r.Sample))
		}
	}
	g.scout, err = follow(ctx, scoutName, addr, dial, s.client, take, func(err error) {
		if g.unmeshed() {
			g.lost(scoutName, err)
		}
	})
	if err != nil {
		return err
	}
	// They end with the scenario, whatever becomes of the waiting below.
	looks := load.NewFlows(g.ctx, probe.Generator{}, func(r timeline.Record) { take(r, 0) })
	wanted := map[flow.Stream]int{} // pods to be reached, by stream
	for _, v := range g.views() {
		path := flow.Path(v)
		if path == flow.Headless || path == flow.HeadlessPublishing {
			continue // nothing is dialled there
		}
		some, err := g.streams(g.looks(path))
		if err != nil {
			return err
		}
		for i := range some {
			node := some[i].Name.Target()
			some[i].Name = some[i].Name.Scouting()
			wanted[some[i].Name] = g.eligible(path, node)
		}
		if path.Outside() {
			err = looks.Start(some...)
		} else {
			err = g.scout.Start(ctx, some...)
		}
		if err != nil {
			return err
		}
	}
	err = disrupt.Await(ctx, serviceBudget, "the Services to reach every pod", func(context.Context) (bool, string, error) {
		done, said := seen.all(wanted)
		return done, said, nil
	})
	if err != nil {
		return err
	}
	return errors.Join(g.scout.Stop(ctx), looks.Stop(ctx))
}

// unmeshed says whether some of the load comes from outside of the mesh. The scout's pod sends it then:
// it has no sidecar, and its looks go by the way that this load goes.
func (g *ground) unmeshed() bool {
	return slices.ContainsFunc(g.scenario.Traffic, func(p load.Profile) bool { return p.Path == flow.Unmeshed })
}

// scoutPod is the scout's pod.
func (g *ground) scoutPod(p deploy.Probe) *corev1.Pod {
	pod := g.scope.ProbePod(p)
	if !g.unmeshed() {
		return g.client(pod)
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, injector.OutLabel, "false")
	return pod
}

// eligible is how many of the targets a path reaches from where it begins.
func (g *ground) eligible(p flow.Path, node string) int {
	if p == flow.ServiceLocal {
		node = g.node
	}
	n := 0
	for _, t := range g.targets {
		if node == "" || t.Node == node {
			n++
		}
	}
	if p == flow.Sticky {
		n = min(n, 1)
	}
	return n
}

// reached are the pods that answered, by stream.
type reached struct {
	mu sync.Mutex
	by map[flow.Stream]map[string]bool
	// blind counts the answers of which nobody knows whose they were: a proxy that
	// goes out by another address than it is dialled at hides which one it is.
	blind map[flow.Stream]int
}

// enoughBlind is how many answers, 20 a second, show that a path leads somewhere.
const enoughBlind = 100

func (r *reached) note(s timeline.Sample, by string) {
	if s.Failed() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[s.Stream] == nil {
		r.by[s.Stream] = map[string]bool{}
	}
	if by == "" {
		r.blind[s.Stream]++
		return
	}
	r.by[s.Stream][by] = true
}

// all says whether each stream reached as many pods as it should, or which
// did not.
func (r *reached) all(wanted map[flow.Stream]int) (bool, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var short []string
	for stream, n := range wanted {
		have := len(r.by[stream])
		if have == 0 && r.blind[stream] >= enoughBlind {
			continue
		}
		if have < n || n == 0 {
			short = append(short, fmt.Sprintf("%d of %d pods answered on %s", have, n, stream))
		}
	}
	slices.Sort(short)
	return len(short) == 0, strings.Join(short, "; ")
}
