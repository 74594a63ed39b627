// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// speechless is a stage that can't say where it is.
type speechless struct{ closed bool }

var errSpeechless = errors.New("nobody answers")

func (*speechless) Fit(b Behaviour) (Behaviour, Skip) { return b, Skip{} }

func (*speechless) Describe(context.Context) (v1alpha1.Environment, error) {
	return v1alpha1.Environment{}, errSpeechless
}

func (*speechless) Open(context.Context, Scenario, *Sink) (Ground, error) {
	return nil, errors.New("it was opened all the same")
}

func (s *speechless) Close(ctx context.Context) (*v1alpha1.Egress, error) {
	s.closed = ctx.Err() == nil
	return nil, nil
}

// A run that breaks before its first recording leaves nothing standing, and nobody
// waits for what will not come; also where it was stopped meanwhile.
func TestABrokenBeginningIsAnEnd(t *testing.T) {
	stage := &speechless{}
	r := &Recorder{cfg: Config{Stage: stage, Dir: t.TempDir()}, done: map[string]chan struct{}{}, ended: map[string]bool{}}
	r.run.Plan = []Scenario{{Name: "one", Behaviours: []string{"a"}, Disrupt: disrupt.Disruption{Kind: disrupt.Delete, Targets: 1}}}
	r.done["one"] = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Record(ctx); !errors.Is(err, errSpeechless) {
		t.Error(err)
	}
	select {
	case <-r.Done("a"):
	default:
		t.Error("who waits for the recording waits on")
	}
	if !stage.closed {
		t.Error("the stage stands, or was closed with a context that is over")
	}

	// What was recorded is never written over.
	again := &Recorder{cfg: Config{Stage: stage, Dir: r.cfg.Dir}}
	if err := writeJSON(filepath.Join(r.cfg.Dir, runFile), Run{}); err != nil {
		t.Fatal(err)
	}
	if err := again.Record(t.Context()); err == nil || !strings.Contains(err.Error(), "already holds a run") {
		t.Error(err)
	}
}

// absent is a stage whose system does not come up.
type absent struct {
	speechless

	opened atomic.Int32
	why    error
}

func (*absent) Describe(context.Context) (v1alpha1.Environment, error) {
	return v1alpha1.Environment{}, nil
}

func (s *absent) Open(context.Context, Scenario, *Sink) (Ground, error) {
	s.opened.Add(1)
	return nil, s.why
}

// Where the system under test does not come up at first, the run ends with that; any other
// error is a recording's own.
func TestASystemThatDoesNotComeUp(t *testing.T) {
	for _, down := range []bool{true, false} {
		why := errors.New("no such option")
		if down {
			why = fmt.Errorf("%w: %w", ErrDown, why)
		}
		stage := &absent{why: why}
		r := &Recorder{cfg: Config{Stage: stage, Dir: t.TempDir(), Price: OnHost}, done: map[string]chan struct{}{}, ended: map[string]bool{}, begun: map[string]time.Time{}}
		for _, name := range []string{"one", "two", "three"} {
			s := Scenario{Name: name, Behaviours: []string{name}, Disrupt: disrupt.Disruption{Kind: disrupt.Delete, Targets: 1}}
			if name == "one" {
				s.Disrupt.Kind, s.Control = disrupt.Kill, true // the control runs alone
			}
			r.run.Plan = append(r.run.Plan, s)
			r.done[name] = make(chan struct{})
		}
		r.run.Cores = 2
		err := r.Record(t.Context())
		if errors.Is(err, why) != down || (err == nil) == down {
			t.Errorf("down %v: %v", down, err)
		}
		if n := stage.opened.Load(); n != map[bool]int32{true: 1, false: 3}[down] {
			t.Errorf("down %v: opened %d times", down, n)
		}
		if !stage.closed {
			t.Errorf("down %v: the stage stands", down)
		}
		for _, done := range r.done {
			select {
			case <-done:
			default:
				t.Errorf("down %v: who waits for a recording waits on", down)
			}
		}
	}
}
