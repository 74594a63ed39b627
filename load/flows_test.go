// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// still is a generator whose streams have something in flight until they are
// let go.
type still map[flow.Stream]*held

type held struct{ stopped, done chan struct{} }

func (f *held) Stop()                 { close(f.stopped) }
func (f *held) Done() <-chan struct{} { return f.done }

func (g still) Start(_ context.Context, s Stream, _ func(timeline.Record)) (Handle, error) {
	if s.Addr == "" {
		return nil, errors.New("no address")
	}
	f := &held{stopped: make(chan struct{}), done: make(chan struct{})}
	g[s.Name] = f
	return f, nil
}

// Stop waits for what is in flight: of the streams that were named, and of all
// where there is none.
func TestFlowsStop(t *testing.T) {
	a, b := flow.Named("a"), flow.Named("b")
	for _, names := range [][]flow.Stream{{a}, {a, b, flow.Named("nobody")}, nil} {
		g := still{}
		f := NewFlows(t.Context(), g, nil)
		if err := f.Start(Stream{Name: a, Addr: "x"}, Stream{Name: b, Addr: "x"}); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- f.Stop(t.Context(), names...) }()
		for _, name := range []flow.Stream{a, b} {
			if names != nil && !slices.Contains(names, name) {
				continue
			}
			<-g[name].stopped
			select {
			case err := <-stopped:
				t.Fatalf("%v: it returned with %s in flight: %v", names, name, err)
			default:
			}
		}
		for _, x := range g {
			close(x.done)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := NewFlows(ctx, still{}, nil)
	if err := f.Start(Stream{Name: a}); err == nil {
		t.Error("a stream that can't be started was")
	}
	if err := f.Start(Stream{Name: a, Addr: "x"}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := f.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with something in flight for ever: %v", err)
	}
}
