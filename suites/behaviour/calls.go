// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/load"
)

// CallPeer is the app that the instances dial themselves. It stays.
const CallPeer = "peer"

// clusterDomain is that of nearly all clusters. Where it is another one, the names don't resolve before
// anything is disturbed either, and what needs them is Inconclusive.
const clusterDomain = "cluster.local."

// ServiceName is the name of a Service, as a name server is asked for it.
func ServiceName(service, namespace string) string {
	return service + "." + namespace + ".svc." + clusterDomain
}

// The signals that have an instance begin what it sends out itself, and end it. Those that come
// while a recording goes on are told neither: what they send is nobody's evidence, and would
// still be sent when the recording is over.
const (
	CallsBegin = "USR1"
	CallsEnd   = "USR2"
)

// Calls are the flows that the instances send out themselves.
func (s Scenario) Calls() []load.Profile {
	return slices.DeleteFunc(slices.Clone(s.Traffic), func(p load.Profile) bool { return !p.Path.Dialled() })
}

// Caller says whether an instance sends out anything, by its place in the order in which they are ended.
func (s Scenario) Caller(nth int) bool {
	return slices.ContainsFunc(s.Calls(), func(p load.Profile) bool { return s.Topology.Carries(nth, p) })
}

// CallsLast is how long one that was told to end them may take to have ended the last.
func (s Scenario) CallsLast() time.Duration {
	longest := time.Second
	for _, p := range s.Calls() {
		longest = max(longest, p.Takes+time.Second)
	}
	return longest
}
