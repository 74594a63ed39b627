// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// census tells, as long as the ground is there, which sockets the pods that stand before what is
// ended have to it: one event for each of the peers, host:port, as the witness of the pod's node
// counts them: those of a node's proxy, where there is one, and none of our own client's. Of pods that are ended (goes) it is told as
// long as they are there.
func (g *ground) census(pods []deploy.Instance, goes bool, at []string) {
	slices.Sort(at)
	pods = slices.Clone(pods)
	tick := time.NewTicker(behaviour.CensusEvery)
	defer tick.Stop()
	counted := map[string]bool{}
	for {
		for _, pod := range slices.Clone(pods) {
			err := g.count(pod, at)
			switch {
			case err == nil:
				counted[pod.UID] = true
			case g.ctx.Err() != nil:
				return
			case errors.Is(err, fs.ErrNotExist) && !counted[pod.UID]:
				// The witness has not found it yet: that looks are missing, the check sees.
			case errors.Is(err, fs.ErrNotExist) && goes:
				pods = slices.DeleteFunc(pods, func(i deploy.Instance) bool { return i.UID == pod.UID })
			default:
				g.sink.Event(timeline.Event{
					Source: "witness", Kind: timeline.WatchGap, Subject: "sockets", Name: pod.Name, Attrs: map[string]string{"why": err.Error()},
				})
				return
			}
		}
		select {
		case <-tick.C:
		case <-g.ctx.Done():
			return
		}
	}
}

// count tells of one look at a pod's sockets.
func (g *ground) count(pod deploy.Instance, peers []string) error {
	w := g.stage.backstage[pod.Node]
	if w == nil {
		return fmt.Errorf("no witness on node %s", pod.Node)
	}
	seen, err := w.Count(g.ctx, control.Census{Pod: pod.UID, Peers: peers, Others: g.byNodes()})
	if err != nil {
		return err
	}
	offset, unsure := w.Offset()
	for _, peer := range peers {
		g.sink.Emit(timeline.Record{Event: &timeline.Event{
			At: seen.At, Err: unsure, Source: "witness", Kind: timeline.Sockets, Subject: pod.UID, Name: pod.Name, Node: pod.Node,
			Attrs: map[string]string{"peer": peer, "sockets": timeline.ListSockets(seen.Sockets[peer])},
		}}, offset)
	}
	return nil
}
