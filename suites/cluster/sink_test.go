// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	_ "github.com/lastcall-dev/lastcall/suites/all" // a recording is of some behaviour
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// recordedBy is what some work tells the sink of a recording, read back from its history.
func recordedBy(t *testing.T, work func(*behaviour.Sink)) *timeline.Timeline {
	t.Helper()
	dir := t.TempDir()
	i := slices.IndexFunc(behaviour.Catalogue(), func(b behaviour.Behaviour) bool { return b.ID == "pod.accept-after-sigterm" })
	r, err := behaviour.NewRecorder(behaviour.Config{
		Stage: &oneSink{work: work}, Dir: dir, Price: behaviour.OnCluster, Selected: behaviour.Catalogue()[i : i+1],
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(filepath.Join(dir, v1alpha1.HistoryDir, r.Plan()[0].Name))
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// oneSink is a stage that gives the sink of its first recording away, and records nothing.
type oneSink struct {
	work func(*behaviour.Sink)
	over bool
}

func (*oneSink) Fit(b behaviour.Behaviour) (behaviour.Behaviour, behaviour.Skip) {
	return b, behaviour.Skip{}
}

func (*oneSink) Describe(context.Context) (v1alpha1.Environment, error) {
	return v1alpha1.Environment{}, nil
}

func (s *oneSink) Open(_ context.Context, _ behaviour.Scenario, sink *behaviour.Sink) (behaviour.Ground, error) {
	if !s.over {
		s.over = true
		s.work(sink)
	}
	return nil, errors.New("nothing stands here")
}

func (*oneSink) Close(context.Context) (*v1alpha1.Egress, error) { return nil, nil }
