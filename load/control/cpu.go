// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// cpuTime is what this process has used since its start, in user and kernel.
func cpuTime() (time.Duration, error) {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// tellCPU adds to the history how much CPU this agent has used.
func (s *Server) tellCPU() {
	used, err := cpuTime()
	if err != nil {
		s.Log.Print(err)
		return
	}
	s.Emit(timeline.Record{Event: &timeline.Event{
		At: timeline.Monotonic(), Source: "agent", Kind: timeline.CPU, Subject: s.Pod, Node: s.Node,
		Attrs: map[string]string{"cpu": used.String()},
	}})
}
