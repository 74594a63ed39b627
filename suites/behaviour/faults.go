// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

//go:generate go test -run TestComponents . -args -update

// DeafClients drops every failed sample before it is recorded, as a client
// does that retries behind your back. It breaks the suite itself.
// Must fail: pod.abrupt-death.
const DeafClients spec.Fault = "deaf-clients"

// Faults are all switches that `--fault` knows.
func Faults() []fixtures.Fault {
	var out []fixtures.Fault
	for _, faults := range components {
		out = append(out, faults()...)
	}
	return append(out, fixtures.Fault{
		Name: DeafClients, Component: "the suite's recorder",
		Does: "drops every failed sample, as a client does that retries behind your back",
	})
}

// ComponentOf is the component that has a fault; "": there is none.
func ComponentOf(name spec.Fault) string {
	for _, f := range Faults() {
		if f.Name == name {
			return f.Component
		}
	}
	return ""
}
