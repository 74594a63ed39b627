// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// killedForMemory are the containers, and on a host the processes, that were killed for
// their memory, in the order in which that was first seen.
func (r recording) killedForMemory() []v1alpha1.MemoryKill {
	var out []v1alpha1.MemoryKill
	told := map[string]bool{}
	for _, e := range r.scene.Timeline.EventsOf(timeline.PodContainer, "") {
		if e.Attrs["reason"] != timeline.ReasonOOMKilled {
			continue
		}
		// A watch may show an end twice: when it came, and with the next start.
		end := e.Subject + " " + e.Attrs["container"] + " " + e.Attrs["finished"]
		if e.Attrs["finished"] != "" && told[end] {
			continue
		}
		told[end] = true
		k := v1alpha1.MemoryKill{Instance: cmp.Or(e.Name, e.Subject), Container: e.Attrs["container"], Limit: e.Attrs["limit"], Likely: e.Attrs["kills"] != ""}
		i := slices.IndexFunc(out, func(other v1alpha1.MemoryKill) bool {
			return other.Instance == k.Instance && other.Container == k.Container
		})
		if i < 0 {
			i = len(out)
			k.At = v1alpha1.Duration(e.At)
			out = append(out, k)
		}
		out[i].Times++
	}
	return out
}

// ownKill says which of the suite's own was killed for memory, the first; "" where none
// was. Whatever else is in doubt, this is why.
func (r recording) ownKill() string {
	for _, e := range r.scene.Timeline.EventsOf(timeline.AgentLost, "") {
		if e.Attrs["memory"] != "" {
			return fmt.Sprintf("the agent %s was lost: %s", e.Attrs["agent"], e.Attrs["why"])
		}
	}
	return ""
}
