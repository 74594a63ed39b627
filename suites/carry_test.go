// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/systems"
)

// A request that a stage can't carry is refused while nothing stands, and says why.
func TestRefusedAsNobodyCarriesIt(t *testing.T) {
	gate, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	theirs := *gate
	theirs.Host = &system.Host{Command: []string{"proxy"}}
	for name, c := range map[string]struct {
		cfg  Config
		want string // part of the error; "" for none
	}{
		"a gateway's behaviour":             {Config{Stage: StageKind, Behaviours: []string{"h2.goaway"}}, ""},
		"the same where nodes are not ours": {Config{Stage: StageCluster, Behaviours: []string{"h2.goaway"}}, "stage cluster can't carry h2.goaway: it is about a gateway"},
		"the same with a gateway":           {Config{Stage: StageKind, Behaviours: []string{"h2.goaway"}, System: gate}, ""},
		"beside one that it carries":        {Config{Stage: StageKind, Behaviours: []string{"h2.goaway", "pod.inflight-completes"}}, ""},
		"a cluster's on a host":             {Config{Stage: StageHost, Behaviours: []string{"pod.node-shutdown"}}, "stage host can't carry pod.node-shutdown"},
		"nodes that are not ours":           {Config{Stage: StageCluster, Behaviours: []string{"rollout.control-plane-down"}}, "on clusters that it made only"},
		"a fault of the app":                {Config{Stage: StageKind, Fault: "exit-on-sigterm"}, ""},
		"a gateway's fault":                 {Config{Stage: StageKind, Fault: "no-goaway"}, ""},
		"the same in clusters of others":    {Config{Stage: StageCluster, Fault: "no-goaway"}, "fault no-goaway on stage cluster: it breaks the reference gateway, which is not put up there"},
		"a gateway's fault with one":        {Config{Stage: StageKind, Fault: "no-goaway", System: gate}, ""},
		"a gateway's fault on a host":       {Config{Stage: StageHost, Fault: "no-goaway"}, ""},
		"a fault of a system of others":     {Config{Stage: StageHost, Fault: "no-goaway", System: &theirs}, "which a system of others is not"},
		"an app's fault with a gateway":     {Config{Stage: StageKind, Fault: "exit-on-sigterm", System: gate}, "leave the system out"},
		"a cluster's fault on a host":       {Config{Stage: StageHost, Fault: "slices-keep-gone"}, "what only a cluster has"},
		"a disrupter's fault on a host":     {Config{Stage: StageHost, Fault: "rushes-rollout"}, "what only a cluster has"},
		"the disrupter's that a host knows": {Config{Stage: StageHost, Fault: "kill-misses"}, ""},
		"the recorder's":                    {Config{Stage: StageHost, Fault: "deaf-clients"}, ""},
	} {
		c.cfg.Out = t.TempDir()
		_, _, err := c.cfg.withDefaults().validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What Ginkgo's filter leaves out stays declared: the specs are made twice, for the preview
// and for the run.
func TestChosen(t *testing.T) {
	selected := []behaviour.Behaviour{{ID: "a.one"}, {ID: "a.two"}, {ID: "b.three"}}
	preview := types.Report{SpecReports: types.SpecReports{
		{State: types.SpecStateSkipped, LeafNodeLabels: []string{"id:a.one"}},
		{State: types.SpecStatePassed, LeafNodeLabels: []string{"id:a.two"}},
		{State: types.SpecStatePending, LeafNodeLabels: []string{"id:b.three"}},
	}}
	if got := chosen(selected, preview); len(got) != 1 || got[0].ID != "a.two" {
		t.Errorf("chosen: %v", got)
	}
	if selected[0].ID != "a.one" || selected[1].ID != "a.two" || selected[2].ID != "b.three" {
		t.Errorf("of the selected are left: %v", selected)
	}
}
