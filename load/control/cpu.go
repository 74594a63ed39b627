// SPDX-License-Identifier: Apache-2.0

package control

import "github.com/lastcall-dev/lastcall/assertions/timeline"

// tellCPU adds to the history how much CPU this agent has used.
func (s *Server) tellCPU() {
	used, err := timeline.CPUTime()
	if err != nil {
		s.Log.Print(err)
		return
	}
	s.Emit(timeline.Record{Event: &timeline.Event{
		At: timeline.Monotonic(), Source: "agent", Kind: timeline.CPU, Subject: s.Pod, Node: s.Node,
		Attrs: map[string]string{"cpu": used.String()},
	}})
}
