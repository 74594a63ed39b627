// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/cluster"
	"github.com/lastcall-dev/lastcall/suites/host"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// lacks says what keeps the stage from carrying a behaviour, as far as that is known
// before there is one; "" for nothing.
func (c Config) lacks(b behaviour.Behaviour) string {
	switch c.Stage {
	case StageHost:
		return host.Lacks(b)
	case StageKind:
		return cluster.Lacks(b, c.System, true, bridged()).Why
	case StageCluster:
		return cluster.Lacks(b, c.System, false, false).Why
	}
	return ""
}

// carried are the behaviours that the stage may carry. Where it is none of them, the
// error says why not, and a cluster need not be made to find out.
func (c Config) carried(selected []behaviour.Behaviour) ([]behaviour.Behaviour, error) {
	var out []behaviour.Behaviour
	var reasons []string
	ids := map[string][]string{}
	for _, b := range selected {
		why := c.lacks(b)
		if why == "" {
			out = append(out, b)
			continue
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		ids[why] = append(ids[why], b.ID)
	}
	if len(out) > 0 || len(selected) == 0 {
		return out, nil
	}
	var lines []error
	for _, why := range reasons {
		lines = append(lines, fmt.Errorf("stage %s can't carry %s: %s", c.Stage, strings.Join(ids[why], ", "), why))
	}
	return nil, errors.Join(lines...)
}

// unbroken says why a fault would be switched on nowhere: a run that passes with it
// would have shown nothing; "" where something has it.
func (c Config) unbroken(f spec.Fault) string {
	of := behaviour.ComponentOf(f)
	part, ours := system.RoleOf(of) // the reference that it breaks
	network := behaviour.OfCluster(f)
	switch {
	case c.Stage == StageHost && (network || part.Controls && !behaviour.HandedOver(f) || fixtures.Has(disrupt.Faults(), f) && f != disrupt.KillMisses):
		return "it breaks what only a cluster has: use stage kind"
	case c.Stage != StageHost && behaviour.OfBench(f):
		return "nothing but a node's wire shows it, which is seen on the bench: use stage host"
	case c.System != nil && !c.System.Reference() && ours:
		return "it breaks the suite's own reference, which a system of others is not"
	case c.System != nil && (ours || network) && !c.System.Made(of) && !(behaviour.HandedOver(f) && c.System.Meshed()):
		return fmt.Sprintf("it breaks what %s is not: leave the system out", c.System.Metadata.Name)
	case c.Stage == StageCluster && ours && part.Role != system.App:
		return fmt.Sprintf("it breaks the reference %s, which is not put up there: use stage kind, or stage host", part.Name)
	}
	return ""
}

// pressed says whether what is tested takes the closed-loop load: it is of HTTP/1.1, and speaks the
// words of load/work, as the reference does.
func (c Config) pressed() bool {
	return c.System == nil || c.System.Claims(spec.HTTP1) && c.System.App == nil
}
