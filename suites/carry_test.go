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
	beside, err := systems.Reference(system.Sidecar)
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
		"a sidecar's, and none is there": {
			Config{Stage: StageHost, Fault: "refuses-at-sigterm", Behaviours: []string{"pod.accept-after-sigterm"}},
			"nothing that is selected has it, a fault of the component sidecar, and what passes then shows nothing: add --behaviours hbone.new-inner-during-drain, or --system systems/reference-sidecar.yaml",
		},
		"the same with sidecars":             {Config{Stage: StageHost, Fault: "refuses-at-sigterm", Behaviours: []string{"pod.accept-after-sigterm"}, System: beside}, ""},
		"the same beside one about sidecars": {Config{Stage: StageHost, Fault: "refuses-at-sigterm", Behaviours: []string{"pod.accept-after-sigterm", "sidecar.accepts-while-app-serves"}}, ""},
		"a sidecar's of a gateway's rule":    {Config{Stage: StageHost, Fault: "half-close-ends-both", Behaviours: []string{"tcp.half-close"}}, "shows nothing: add --system systems/reference-sidecar.yaml"},
		"a node proxy's beside sidecars":     {Config{Stage: StageKind, Fault: "cuts-at-sigterm", Behaviours: []string{"sidecar.rollout-streams"}}, "add --behaviours node.proxy-ends"},
		"a data path's of node proxies":      {Config{Stage: StageHost, Fault: "keeps-dead-tunnels", Behaviours: []string{"node.pool-evicts"}}, ""},
		"a gateway's, and none is there":     {Config{Stage: StageHost, Fault: "no-goaway", Behaviours: []string{"pod.inflight-completes"}}, "add --behaviours h2.goaway, or --system systems/reference-gateway.yaml"},
		"an app's, of which nothing ends":    {Config{Stage: StageHost, Fault: "close-listener", Behaviours: []string{"h2.goaway"}}, "add --behaviours pod.accept-after-sigterm, or --system systems/reference.yaml"},
		"the same in a cluster":              {Config{Stage: StageKind, Fault: "close-listener", Behaviours: []string{"h2.goaway"}}, "shows nothing: add --behaviours pod.accept-after-sigterm"},
		"an app's behind a gateway":          {Config{Stage: StageKind, Fault: "exit-on-sigterm", Behaviours: []string{"pool.evicts"}}, ""},
		"a cluster's around a gateway":       {Config{Stage: StageKind, Fault: "slices-keep-gone", Behaviours: []string{"h2.goaway"}}, "shows nothing: add --behaviours pod.grace-exhausted"},
		"a controller's that is handed over": {Config{Stage: StageHost, Fault: "forgets-removals", Behaviours: []string{"controller.discovery-resume"}}, ""},
		"the same, and none is":              {Config{Stage: StageHost, Fault: "forgets-removals", Behaviours: []string{"pod.accept-after-sigterm"}, System: beside}, "shows nothing: add --behaviours controller.discovery-resume"},
		"the same in a cluster with sidecars": {
			Config{Stage: StageKind, Fault: "forgets-removals", Behaviours: []string{"pod.accept-after-sigterm"}, System: beside},
			"shows nothing: leave the system out, or the fault",
		},
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
