// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// counter answers a census with one socket to each peer; err, if it has one, on its nth look.
type counter struct {
	mu    sync.Mutex
	looks int
	err   func(n int) error
	// enough is called when it has looked so often as a test wants.
	most   int
	enough func()
}

func (c *counter) Count(_ context.Context, q control.Census) (control.Counted, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	if c.looks == c.most {
		c.enough()
	}
	if c.err != nil {
		if err := c.err(c.looks); err != nil {
			return control.Counted{}, err
		}
	}
	out := control.Counted{At: time.Duration(c.looks), Sockets: map[string][]timeline.Socket{}}
	for i, peer := range q.Peers {
		out.Sockets[peer] = []timeline.Socket{{Inode: uint64(10 + i), State: "established", Local: q.Pod + ":1"}}
	}
	return out, nil
}

// A census tells of each look one event for each of the peers, as the witness of the pod's
// node counted. A pod that the witness has not found yet is none that went.
func TestCensus(t *testing.T) {
	peers := []string{"10.0.0.2:80", "10.0.0.2:443", "10.0.0.3:80"}
	missing := fmt.Errorf("%w: %w", errNoProcess, fs.ErrNotExist)
	for _, tc := range []struct {
		name string
		err  func(n int) error
		node string
		// looks that are told of at least, and gap is what is said of the one that ended it.
		looks int
		gap   string
	}{
		{"all is well", nil, "n1", 3, ""},
		{"it is found later", func(n int) error {
			if n < 3 {
				return missing
			}
			return nil
		}, "n1", 1, ""},
		{"it was found, and is missing", func(n int) error {
			if n == 3 {
				return missing
			}
			return nil
		}, "n1", 2, "no process of the pod"},
		{"the witness can't count", func(int) error { return errNoProcess }, "n1", 0, "no process of the pod"},
		{"a node without a witness", nil, "n2", 0, "no witness on node n2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			count := &counter{err: tc.err, most: 4, enough: cancel}
			s := serve(t, count)
			witness, _ := follows(t, s, func(timeline.Record, time.Duration) {})
			pod := deploy.Instance{UID: "uid-g", Name: "gateway-1", Node: tc.node}
			tl := recordedBy(t, func(sink *behaviour.Sink) {
				g := &ground{stage: &Stage{shared: &shared{backstage: map[string]*agent{"n1": witness}}}, sink: sink, ctx: ctx, system: behaviour.Subject{System: &system.System{}}}
				g.census([]deploy.Instance{pod}, false, peers)
			})
			byLook := map[time.Duration][]string{}
			for _, e := range tl.EventsOf(timeline.Sockets, "uid-g") {
				if e.Name != "gateway-1" || e.Node != "n1" || len(e.Held()) != 1 || e.Held()[0].State != "established" {
					t.Errorf("%+v", e)
				}
				byLook[e.At] = append(byLook[e.At], e.Attrs["peer"])
			}
			if len(byLook) < tc.looks || tc.gap != "" && len(byLook) > tc.looks {
				t.Errorf("%d looks are told of, want %d", len(byLook), tc.looks)
			}
			for _, got := range byLook {
				if want := []string{"10.0.0.2:443", "10.0.0.2:80", "10.0.0.3:80"}; !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
			}
			gaps := tl.EventsOf(timeline.WatchGap, "sockets")
			if len(gaps) != min(1, len(tc.gap)) {
				t.Fatalf("%d gaps are told of", len(gaps))
			}
			if tc.gap != "" && !strings.Contains(gaps[0].Attrs["why"], tc.gap) {
				t.Errorf("the gap: %s", gaps[0].Attrs["why"])
			}
			if tc.gap != "" && ctx.Err() != nil {
				t.Error("it went on behind a gap")
			}
		})
	}
}

// Of pods that are ended it is told as long as they are there.
func TestCensusOfWhoGoes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	count := &counter{most: 8, enough: cancel, err: func(n int) error {
		if n == 3 { // the second look at the first of two
			return fmt.Errorf("%w: %w", errNoProcess, fs.ErrNotExist)
		}
		return nil
	}}
	witness, _ := follows(t, serve(t, count), func(timeline.Record, time.Duration) {})
	tl := recordedBy(t, func(sink *behaviour.Sink) {
		g := &ground{stage: &Stage{shared: &shared{backstage: map[string]*agent{"n1": witness}}}, sink: sink, ctx: ctx, system: behaviour.Subject{System: &system.System{}}}
		g.census([]deploy.Instance{{UID: "uid-a", Node: "n1"}, {UID: "uid-b", Node: "n1"}}, true, []string{"10.0.0.2:80"})
	})
	goes, stays := tl.EventsOf(timeline.Sockets, "uid-a"), tl.EventsOf(timeline.Sockets, "uid-b")
	if len(goes) != 1 || len(stays) < 5 || len(tl.EventsOf(timeline.WatchGap, "")) > 0 {
		t.Errorf("%d looks at who goes, %d at who stays, and the gaps %v", len(goes), len(stays), tl.EventsOf(timeline.WatchGap, ""))
	}
}
