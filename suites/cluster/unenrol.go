// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/appsockets"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/load/control"
)

// The times of a pod that leaves the mesh and comes back.
const (
	// leftWithin is how long its way out is waited for beside the time that its connections have, and joinedWithin for
	// its way back.
	leftWithin   = 15 * time.Second
	joinedWithin = 20 * time.Second
	// stays is how long it is out, and in again before the end: longer than news takes.
	stays = 5 * time.Second
)

// leavers is how many pods leave.
const leavers = 2

// leaversFirst has instances that are on different nodes come first: by their place it is told what passes through them
// (behaviour.Topology.Carries), and these leave.
func leaversFirst(all []deploy.Instance) []deploy.Instance {
	var first, then []deploy.Instance
	for _, t := range all {
		if len(first) < leavers && !slices.ContainsFunc(first, func(a deploy.Instance) bool { return a.Node == t.Node }) {
			first = append(first, t)
		} else {
			then = append(then, t)
		}
	}
	return append(first, then...)
}

// Unenrol implements disrupt.Unenroller: the first pods, which are on different nodes, leave, side by side.
func (g *ground) Unenrol(ctx context.Context) error {
	if len(g.targets) < leavers || g.targets[0].Node == g.targets[1].Node {
		return fmt.Errorf("all %d instances are on one node, and one on each of %d is to leave the mesh", len(g.targets), leavers)
	}
	side, ctx := errgroup.WithContext(ctx)
	for _, pod := range g.targets[:leavers] {
		side.Go(func() error {
			if err := g.takeOut(ctx, pod); err != nil {
				return fmt.Errorf("taking %s out of the mesh, and back into it: %w", pod.Name, err)
			}
			return nil
		})
	}
	return side.Wait()
}

// takeOut takes the label away by which a pod is its node's proxy's, waits until nothing of that is in its network, and
// puts the label back.
func (g *ground) takeOut(ctx context.Context, pod deploy.Instance) error {
	is := func(e timeline.Event) {
		e.Source, e.Subject, e.Name, e.Node = "runner", pod.UID, pod.Name, pod.Node
		g.sink.Event(e)
	}
	asked := timeline.Monotonic()
	if err := g.label(ctx, pod, nil); err != nil {
		return err
	}
	within := nodeagent.Propagation + nodeagent.LeaveWithin
	is(timeline.Event{Kind: timeline.MeshLeaving, Err: timeline.Monotonic() - asked, Attrs: map[string]string{"within": within.String()}})
	left := map[string]string{} // with what was seen last
	err := disrupt.Await(ctx, within+leftWithin, pod.Name+" to leave the mesh", func(ctx context.Context) (bool, string, error) {
		now, err := g.carried(ctx, pod)
		if err == nil {
			left["held"] = appsockets.Words(now)
		}
		return err == nil && len(now) == 0, appsockets.Words(now), err
	})
	// What stays is the proxy's to answer for, and the recording is sound.
	if err != nil && !disrupt.NotWithin(err) {
		return err
	}
	is(timeline.Event{Kind: timeline.MeshLeft, Attrs: left})
	if err := disrupt.Pause(ctx, stays); err != nil {
		return err
	}

	is(timeline.Event{Kind: timeline.MeshJoining})
	dataplane := membership.NodeDataplane
	if err := g.label(ctx, pod, &dataplane); err != nil {
		return err
	}
	err = disrupt.Await(ctx, joinedWithin, pod.Name+" to be back in the mesh", func(ctx context.Context) (bool, string, error) {
		held, err := g.carried(ctx, pod)
		listens := slices.ContainsFunc(held, func(s appsockets.Socket) bool { return s.Listening && s.Local.Port() == redirect.TunnelPort })
		return listens, appsockets.Words(held), err
	})
	if err != nil && !disrupt.NotWithin(err) {
		return err
	}
	var joined map[string]string
	if err != nil {
		joined = map[string]string{"lacks": err.Error()}
	}
	is(timeline.Event{Kind: timeline.MeshJoined, Attrs: joined})
	return disrupt.Pause(ctx, stays)
}

// label gives a pod its label of a data path, or takes it away: nil.
func (g *ground) label(ctx context.Context, pod deploy.Instance, dataplane *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": map[string]*string{membership.DataplaneLabel: dataplane},
	}})
	if err != nil {
		return err
	}
	_, err = g.stage.cs.CoreV1().Pods(g.scope.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// carried are the sockets in a pod's network that are a node proxy's.
func (g *ground) carried(ctx context.Context, pod deploy.Instance) ([]appsockets.Socket, error) {
	w := g.stage.backstage[pod.Node]
	if w == nil {
		return nil, disrupt.Final(fmt.Errorf("no witness on node %s", pod.Node))
	}
	var own []netip.Addr
	for _, ip := range pod.IPs {
		a, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, disrupt.Final(err)
		}
		own = append(own, a)
	}
	seen, err := w.Count(ctx, control.Census{Pod: pod.UID})
	if err != nil {
		return nil, err
	}
	var out []appsockets.Socket
	for peer, sockets := range seen.Sockets {
		for _, s := range sockets {
			local, err := netip.ParseAddrPort(s.Local)
			remote, failed := netip.ParseAddrPort(peer)
			if err := errors.Join(err, failed); err != nil {
				return nil, disrupt.Final(err)
			}
			if redirect.Carries(local, remote, own) {
				out = append(out, appsockets.Socket{Listening: s.State == timeline.SocketListens, Local: local, Remote: remote})
			}
		}
	}
	return out, nil
}
