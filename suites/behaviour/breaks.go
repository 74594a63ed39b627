// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Breaks are those of a behaviour's faults that what it is put to can have. A reference that was
// asked for has its own; elsewhere those of a mesh are the mesh's, and not of an app without one.
func (s Stack) Breaks(b Behaviour) []spec.Fault {
	sub := s.Subject(b.Topology)
	return slices.DeleteFunc(slices.Clone(b.BrokenBy), func(f spec.Fault) bool {
		of := ComponentOf(f)
		row, ours := system.RoleOf(of)
		if row.Controls && b.Disrupt.Kind == disrupt.HandOver {
			return sub.Named && !sub.Reference()
		}
		if sub.Named {
			return (ours || OfCluster(f)) && !sub.Made(of)
		}
		return ours && (row.Meshed || row.Controls) && !b.Topology.row().Made(of)
	})
}

// OfCluster says whether a fault is one of what a cluster alone has around an app: of who writes its
// endpoints, or of its manifest.
func OfCluster(f spec.Fault) bool {
	return fixtures.Has(slicewriter.Faults(), f) || fixtures.Has(deploy.Faults(), f)
}

// OfBench says whether a fault is one that nothing but a node's wire shows, which is seen on the bench alone.
func OfBench(f spec.Fault) bool { return f == sidecar.PlainAtFirst }

// HandedOver says whether a fault is one of a mesh's controllers which some recording has for itself: they
// are what is ended there, whoever is tested.
func HandedOver(f spec.Fault) bool {
	return slices.ContainsFunc(Catalogue(), func(b Behaviour) bool {
		return b.Disrupt.Kind == disrupt.HandOver && slices.Contains(b.BrokenBy, f)
	})
}
