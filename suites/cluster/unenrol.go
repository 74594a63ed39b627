// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/appsockets"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/load/control"
)

// The times of a pod that leaves the mesh and comes back.
const (
	// leftWithin is how long its way out may take beside the time that its connections have, and joinedWithin
	// its way back.
	leftWithin   = 20 * time.Second
	joinedWithin = 20 * time.Second
	// stays is how long it is out, and in again before the end: longer than news takes.
	stays = 5 * time.Second
)

// leavers is how many pods leave.
const leavers = 2

// Unenrol implements disrupt.Unenroller: the first pods that are on different nodes leave, side by side.
func (g *ground) Unenrol(ctx context.Context) error {
	var all []deploy.Instance
	for _, t := range g.targets {
		if len(all) < leavers && !slices.ContainsFunc(all, func(a deploy.Instance) bool { return a.Node == t.Node }) {
			all = append(all, t)
		}
	}
	if len(all) < leavers {
		return fmt.Errorf("all instances are on %d nodes, and one on each of %d is to leave the mesh", len(all), leavers)
	}
	side, ctx := errgroup.WithContext(ctx)
	for _, pod := range all {
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
	is(timeline.Event{Kind: timeline.MeshLeaving, Err: timeline.Monotonic() - asked})
	var held []appsockets.Socket
	err := disrupt.Await(ctx, leftWithin+g.scenario.Topology.Deadline, pod.Name+" to leave the mesh", func(ctx context.Context) (bool, string, error) {
		var err error
		held, err = g.carried(ctx, pod)
		return len(held) == 0, wordsOf(held), err
	})
	// What stays is the proxy's to answer for, and the recording is sound.
	if err != nil && !disrupt.NotWithin(err) {
		return err
	}
	is(timeline.Event{Kind: timeline.MeshLeft, Attrs: map[string]string{"held": wordsOf(held)}})
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
		return listens, wordsOf(held), err
	})
	if err != nil && !disrupt.NotWithin(err) {
		return err
	}
	is(timeline.Event{Kind: timeline.MeshJoined})
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

// wordsOf are sockets, one word each.
func wordsOf(sockets []appsockets.Socket) string {
	words := make([]string, len(sockets))
	for i, s := range sockets {
		words[i] = s.Word()
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}
