// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/systems"
)

// Stack says who stands for each role of a run: the system that is tested for all that it is,
// and the suite's reference for the rest.
type Stack struct {
	app, gateway *system.System // the reference's
	tested       *system.System // nil: the reference is tested
}

// NewStack is that of a run that tests a system; nil: the reference.
func NewStack(tested *system.System) (Stack, error) {
	app, err := systems.App()
	if err != nil {
		return Stack{}, err
	}
	gateway, err := systems.Gateway()
	return Stack{app: app, gateway: gateway, tested: tested}, err
}

// App is the reference app: what stands behind a gateway.
func (s Stack) App() *system.System { return s.app }

// Tested is the system that somebody asked to test; nil: the reference.
func (s Stack) Tested() *system.System { return s.tested }

// Subject is the system that a topology is about: what is ended, or what stands before that
// (Topology.Behind).
func (s Stack) Subject(t Topology) Subject {
	switch {
	case s.tested != nil:
		return Subject{System: s.tested, Named: true}
	case t.Role == system.Gateway:
		return Subject{System: s.gateway}
	default:
		return Subject{System: s.app}
	}
}

// Subject is a system as a recording is about it.
type Subject struct {
	*system.System
	// Named: somebody asked for it. Else it is the reference, which has the times of the
	// behaviours.
	Named bool
}

// Gateway says whether it passes requests on to backends.
func (s Subject) Gateway() bool { return slices.Contains(s.Roles, system.Gateway) }

// Shows says which evidence it lets a recording have: all of it, but of an app that is asked for
// paths of its own.
func (s Subject) Shows(e assertions.Evidence) bool {
	return s.App == nil || e == assertions.Lasting && s.App.Slow != ""
}
