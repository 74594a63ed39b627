// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/cluster"
	"github.com/lastcall-dev/lastcall/suites/host"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

//go:generate go test -run ^(TestSkips|TestRecordingsFitTheMachine)$ . -args -update

var update = flag.Bool("update", false, "write the golden files anew")

// advice is how a reason says what to do, or that nothing can be done.
var advice = regexp.MustCompile(`: (use|run|write|where|if|put|add|let) `)

// Why a behaviour is skipped is read by people who do not know this suite: it says what is missing and
// what to write, or to run, to have it judged. The golden file is what they read.
func TestSkips(t *testing.T) {
	haproxy, err := system.Load("../systems/haproxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	app := inGo()
	app.Roles, app.Admin, app.Terminate = []system.Role{system.App}, nil, []system.Step{{Signal: "TERM"}}
	mute := *app
	mute.Roles, mute.Features, mute.Ports = []system.Role{system.Gateway}, []spec.Feature{spec.TCP}, map[string]int{"tcp": 0}
	fits := func(sys *system.System, lacks func(behaviour.Behaviour) string) func(behaviour.Behaviour) behaviour.Skip {
		return func(b behaviour.Behaviour) behaviour.Skip {
			if why := lacks(b); why != "" {
				return behaviour.Because(spec.Uncarried, why)
			}
			for _, need := range b.Needs {
				if need == spec.Services {
					continue
				}
				if why := sys.Lacks(need); why != "" {
					return behaviour.Because(spec.Unclaimed, why)
				}
			}
			_, skip := behaviour.Fit(b, sys)
			return skip
		}
	}
	beside, err := system.Load("../systems/envoy-sidecar-plain.yaml")
	if err != nil {
		t.Fatal(err)
	}
	onKind := func(sys *system.System) func(behaviour.Behaviour) behaviour.Skip {
		return func(b behaviour.Behaviour) behaviour.Skip {
			if skip := cluster.Lacks(b, sys, true, true); skip.Why != "" {
				return skip
			}
			_, skip := behaviour.Fit(b, sys)
			return skip
		}
	}
	var got strings.Builder
	for _, c := range []struct {
		name string
		of   func(behaviour.Behaviour) behaviour.Skip
	}{
		{"haproxy on a host", fits(haproxy, host.Lacks)},
		{"an app of HTTP/1.1 on a host", fits(app, host.Lacks)},
		{"a gateway of TCP on a host", fits(&mute, host.Lacks)},
		{"no system on kind", func(b behaviour.Behaviour) behaviour.Skip { return cluster.Lacks(b, nil, true, true) }},
		{"haproxy on kind", onKind(haproxy)},
		{"a plain sidecar on kind", onKind(beside)},
		{"a gateway of TCP on kind", func(b behaviour.Behaviour) behaviour.Skip { return cluster.Lacks(b, &mute, true, true) }},
		{"a cluster of others", func(b behaviour.Behaviour) behaviour.Skip { return cluster.Lacks(b, nil, false, false) }},
	} {
		var reasons []string
		ids := map[string][]string{}
		for _, b := range behaviour.Catalogue() {
			skip := c.of(b)
			if skip.Why == "" {
				continue
			}
			why := string(skip.Kind) + ": " + skip.Why
			if !advice.MatchString(skip.Why) {
				t.Errorf("%s, %s: it does not say what to do: %s", c.name, b.ID, why)
			}
			if len(ids[why]) == 0 {
				reasons = append(reasons, why)
			}
			ids[why] = append(ids[why], b.ID)
		}
		fmt.Fprintf(&got, "== %s\n", c.name)
		for _, why := range reasons {
			fmt.Fprintf(&got, "%s\n    %s\n", why, strings.Join(ids[why], " "))
		}
	}
	golden(t, "testdata/skips.txt", got.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: `make generate` writes it", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("not as in %s (-want +got): `make generate` writes it anew\n%s", path, d)
	}
}
