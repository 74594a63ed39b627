// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/systems"
)

// Stack says who stands for each role of a run: the system that is tested for all that it is,
// and the suite's reference for the rest.
type Stack struct {
	references map[system.Role]*system.System // the suite's own, for each role
	tested     *system.System                 // nil: the references are tested
}

// NewStack is that of a run that tests a system; nil: the reference.
func NewStack(tested *system.System) (Stack, error) {
	s := Stack{references: map[system.Role]*system.System{}, tested: tested}
	for _, row := range system.Roles() {
		var err error
		if s.references[row.Role], err = systems.Reference(row.Role); err != nil {
			return Stack{}, err
		}
	}
	return s, nil
}

// App is the reference app: what stands behind whatever stands before backends.
func (s Stack) App() *system.System { return s.references[system.App] }

// Beside is the reference app as a vendor's sidecar is put beside it.
func (s Stack) Beside() *system.System { return s.references[system.Sidecar] }

// Tested is the system that somebody asked to test; nil: the reference.
func (s Stack) Tested() *system.System { return s.tested }

// Subject is the system that a topology is about: what is ended, or what stands before that
// (Topology.Behind).
func (s Stack) Subject(t Topology) Subject {
	if s.tested != nil {
		return Subject{System: s.tested, Named: true}
	}
	return Subject{System: s.references[cmp.Or(t.Role, system.App)]}
}

// Subject is a system as a recording is about it.
type Subject struct {
	*system.System
	// Named: somebody asked for it. Else it is the reference, which has the times of the
	// behaviours.
	Named bool
}

// Before says whether it stands before backends.
func (s Subject) Before() bool { return s.Stands().Before }

// OwnApp says whether it is the reference app, which a cluster has no manifest of.
func (s Subject) OwnApp() bool { return !s.Named && s.Stands().Role == system.App }

// Shows says which evidence it lets a recording have: all of it, but of an app that is asked for
// paths of its own.
func (s Subject) Shows(e assertions.Evidence) bool {
	if e == assertions.Minimum {
		return s.AppIsOurs() || s.Drain.MinDrain > 0
	}
	return s.App == nil || e == assertions.Lasting && s.App.Slow != ""
}
