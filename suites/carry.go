// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/cluster"
	"github.com/lastcall-dev/lastcall/suites/host"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/systems"
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
func (c Config) unbroken(f spec.Fault, selected []behaviour.Behaviour) string {
	of := behaviour.ComponentOf(f)
	part, ours := system.RoleOf(of) // the reference that it breaks
	network := behaviour.OfCluster(f)
	switch {
	case c.Stage == StageHost && (!host.Has(f) || part.Controls && !behaviour.HandedOver(f)):
		return "it breaks what only a cluster has: use stage kind"
	case c.System != nil && !c.System.Reference() && ours:
		return "it breaks the suite's own reference, which a system of others is not"
	case c.System != nil && (ours || network) && !c.System.Made(of) && !(behaviour.HandedOver(f) && c.System.Meshed()):
		return fmt.Sprintf("it breaks what %s is not: leave the system out", c.System.Metadata.Name)
	case c.Stage == StageCluster && ours && part.Role != system.App:
		return fmt.Sprintf("it breaks the reference %s, which is not put up there: use stage kind, or stage host", part.Name)
	}
	carried, err := c.carried(selected)
	if err != nil || len(carried) == 0 || c.has(f, carried) {
		return "" // what is carried nowhere is told elsewhere
	}
	does := "leave the system out, or the fault"
	if adds := c.adds(f, part, selected); len(adds) > 0 {
		does = "add " + strings.Join(adds, ", or ")
	}
	return fmt.Sprintf("nothing that is selected has it, a fault of the component %s, and what passes then shows nothing: %s", of, does)
}

// has says whether something has a fault in the recordings of some behaviours.
func (c Config) has(f spec.Fault, all []behaviour.Behaviour) bool {
	stack, err := behaviour.NewStack(c.System)
	if err != nil {
		panic(err) // the references are a part of this program
	}
	return slices.ContainsFunc(all, func(b behaviour.Behaviour) bool { return c.elsewhere(b).Why == "" && stack.Has(b, f) })
}

// adds are what would have something of a run have a fault that is one of a part: a behaviour which it breaks, or the
// reference that the part makes, where the run is of no system.
func (c Config) adds(f spec.Fault, part system.RoleRow, selected []behaviour.Behaviour) []string {
	var out []string
	all := behaviour.Catalogue()
	if at := slices.IndexFunc(all, func(b behaviour.Behaviour) bool {
		return slices.Contains(b.BrokenBy, f) && c.lacks(b) == "" && c.has(f, []behaviour.Behaviour{b})
	}); at >= 0 {
		out = append(out, "--behaviours "+all[at].ID)
	}
	if len(c.tested()) > 0 || part.Reference == "" {
		return out
	}
	reference, err := systems.Reference(part.Role)
	if err != nil {
		panic(err) // it is a part of this program
	}
	c.System = reference
	here := c.Stage == StageHost && reference.Host != nil || c.Stage == StageKind && reference.Cluster != nil
	if here && slices.ContainsFunc(selected, func(b behaviour.Behaviour) bool {
		_, skip := behaviour.Fit(b, reference)
		return skip.Why == "" && c.lacks(b) == ""
	}) {
		out = append(out, "--system systems/"+part.Reference)
	}
	return out
}

// pressed says whether what is tested takes the closed-loop load: it is of HTTP/1.1, and speaks the
// words of load/work, as the reference does.
func (c Config) pressed() bool {
	return c.System == nil || c.System.Claims(spec.HTTP1) && c.System.App == nil
}
