// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What the behaviours share that are judged by single calls of the plugin: they have one recording.
var (
	needs = []spec.Feature{spec.Services, spec.HBONE, spec.Bench}
	// meanwhile is what passes through the mesh beside the calls, on other nodes.
	meanwhile = []load.Profile{{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10}}
)

// called makes a behaviour of what all of them have, and its own.
func called(b behaviour.Behaviour) behaviour.Behaviour {
	b.Profile, b.Needs = spec.Mesh, needs
	b.Topology, b.Disrupt, b.Traffic = behaviour.OnNodes, behaviour.RuntimeCalls, meanwhile
	b.Resolution = 60 * time.Millisecond
	return b
}

// bound is how long a DEL may take whatever its agent does: what the plugin allows itself, and a second for its
// process to begin and to end.
const bound = cni.DefaultDelWithin + time.Second

// call is one of the plugin's commands, as the runtime saw it.
type call struct {
	timeline.Event
	command, agent, proxy, failed string
	took                          time.Duration
}

// callsOf are the calls of a command that some say more of, for pods of the mesh or for none; those that nobody measured are doubts.
func callsOf(c assertions.Case, y *assertions.Tally, command string, only func(call) bool) []call {
	return callsIn(c, y, func(k call) bool { return k.command == command && !k.others() && (only == nil || only(k)) })
}

// callsIn are the calls that are wanted.
func callsIn(c assertions.Case, y *assertions.Tally, want func(call) bool) []call {
	var out []call
	for _, e := range c.Timeline.EventsOf(timeline.CNICall, "") {
		k := call{Event: e, command: e.Attrs["command"], agent: e.Attrs["agent"], proxy: e.Attrs["proxy"], failed: e.Attrs["error"]}
		if !want(k) {
			continue
		}
		var err error
		if k.took, err = time.ParseDuration(e.Attrs["took"]); err != nil {
			y.Doubt("%v: nobody measured how long it took", k)
			continue
		}
		y.Span(e.At-k.took, e.At)
		out = append(out, k)
	}
	return out
}

// String says what was called, and of whom.
func (k call) String() string {
	out := k.command
	if k.others() {
		out += " of a pod that is in no mesh"
	}
	if v := k.Attrs["version"]; v != "" {
		out += " of version " + v
	}
	if k.again() {
		out += " once more"
	}
	if k.agent != timeline.CNIUp {
		out += fmt.Sprintf(" with the agent %s", k.agent)
	}
	if k.proxy != timeline.CNIUp {
		out += fmt.Sprintf(" with the proxy %s", k.proxy)
	}
	if old := k.Attrs["old"]; old != "" {
		out += fmt.Sprintf(", and the old one %s", old)
	}
	return out
}

// again says whether it came with neither the pod's network namespace nor what came of its ADD.
func (k call) again() bool { return k.Attrs["again"] == "true" }

// others says whether it was for a pod that is in no mesh.
func (k call) others() bool { return k.Attrs["others"] == "true" }

// noted says whether the plugin had a note of the pod when it was called.
func (k call) noted() bool { return k.Attrs["noted"] == "true" }

// left says whether it had one behind that.
func (k call) left() bool { return k.Attrs["left"] != "false" }

// well says whether agent and proxy were up.
func (k call) well() bool { return k.agent == timeline.CNIUp && k.proxy == timeline.CNIUp }

// against adds a call that failed.
func (k call) against(y *assertions.Tally) {
	y.Against(k.At, k.Name, "", "%v failed: %s%s", k, k.failed, hidden(k.failed))
}

// hidden says of an error's text what containerd makes of it.
func hidden(text string) string {
	if strings.Contains(strings.ToLower(text), "not found") {
		return " (which containerd takes for success: it calls no plugin that comes after)"
	}
	return ""
}

// ended judges DELs: each succeeds, is done within the bound, and leaves no note of its pod.
func ended(c assertions.Case, y *assertions.Tally, all []call) (slowest time.Duration) {
	for _, k := range all {
		slowest = max(slowest, k.took)
		switch {
		case k.took > bound: // it may have been ended for that
			y.Late(c, k.At, k.Name, "", "%v had not ended after %s", k, bound)
		case k.failed != "":
			k.against(y)
		case k.left():
			y.Against(k.At, k.Name, "", "%v succeeded, and the plugin still has a note of the pod", k)
		}
	}
	return slowest
}
