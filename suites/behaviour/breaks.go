// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Breaks are those of a behaviour's faults that what it is put to can have.
func (s Stack) Breaks(b Behaviour) []spec.Fault {
	return slices.DeleteFunc(slices.Clone(b.BrokenBy), func(f spec.Fault) bool { return !s.Has(b, f) })
}

// Has says whether what a behaviour is put to has a fault, on a stage that knows it. A reference has those of what it is
// made of. The app's are had by the reference app behind a gateway too, where that is what ends; what a cluster has around
// an app is there for the reference app alone; and who records and disturbs is there for everybody.
func (s Stack) Has(b Behaviour, f spec.Fault) bool {
	sub, of := s.Subject(b.Topology), ComponentOf(f)
	row, ours := system.RoleOf(of)
	switch {
	case row.Controls && b.Disrupt.Kind == disrupt.HandOver:
		return !sub.Named || sub.Reference()
	case sub.Made(of):
		return true
	case !ours && !OfCluster(f):
		return true
	case sub.Named:
		return false
	case OfCluster(f):
		return sub.OwnApp()
	}
	return row.Role == system.App && b.Topology.Behind
}

// OfCluster says whether a fault is one of what a cluster alone has around an app: of who writes its
// endpoints, or of its manifest.
func OfCluster(f spec.Fault) bool {
	return fixtures.Has(slicewriter.Faults(), f) || fixtures.Has(deploy.Faults(), f)
}

// HandedOver says whether a fault is one of a mesh's controllers which some recording has for itself: they
// are what is ended there, whoever is tested.
func HandedOver(f spec.Fault) bool {
	row, _ := system.RoleOf(ComponentOf(f))
	return row.Controls && slices.ContainsFunc(Catalogue(), func(b Behaviour) bool {
		return b.Disrupt.Kind == disrupt.HandOver && slices.Contains(b.BrokenBy, f)
	})
}
