// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"log"

	"golang.org/x/sys/unix"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/witness"
	"github.com/lastcall-dev/lastcall/load/control"
)

// nodeWatches are the watches of the node itself; signals go through them.
func nodeWatches(s *control.Server, tail *witness.Tail, node string, stderr io.Writer) []watch {
	links := witness.NewLinks(node, s.Emit)
	processes := witness.NewProcesses(node, s.Emit, tail.Exited, links.Add)
	s.Signaller, s.Counter = signaller{processes}, counter{processes}
	logger := log.New(stderr, "witness: ", log.LstdFlags)
	return []watch{
		processes.Run, witness.NewPulse(node, s.Emit).Run,
		func(ctx context.Context) error {
			// T_net is best effort: without it nothing else is less true.
			if err := links.Run(ctx); err != nil {
				logger.Printf("interfaces are not watched: %v", err)
				<-ctx.Done()
			}
			return nil
		},
	}
}

type signaller struct{ processes *witness.Processes }

func (s signaller) Signal(_ context.Context, q control.Signal) ([]int, error) {
	return s.processes.Signal(q.Pod, q.Container, unix.SignalNum("SIG"+q.Signal))
}

type counter struct{ processes *witness.Processes }

func (c counter) Count(_ context.Context, q control.Census) (control.Counted, error) {
	at := timeline.Monotonic()
	look := c.processes.Sockets
	if q.Others {
		look = c.processes.Others
	}
	sockets, err := look(q.Pod, q.Peers)
	return control.Counted{At: at, Sockets: sockets}, err
}
