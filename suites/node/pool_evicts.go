// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.pool-evicts",
	Title: "A node proxy's pool holds no tunnel to a workload that is gone, in the networks of those that had dialled it",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc:   "project",
			Quote: "A second after a workload's interface has gone, no proxy holds a tunnel to it.",
		},
		{
			Doc: "RFC 9112", Section: "section 9.5", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.5",
			Quote: "Implementations SHOULD constantly monitor open connections for a received closure signal and respond to it as appropriate, since prompt closure of both sides of a connection enables allocated system resources to be reclaimed.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A proxy keeps tunnels to all whom its workloads call, in each workload's own network. Of one to a pod that has gone nobody hears anything any more; the next connection to the pod's address, which may be another pod's by then, goes into it and is lost, or waits until a keepalive gives it up.",
	Causes: "A pool that looks at a tunnel only when it next uses it, and not at the GOAWAY and close_notify that came on it. Or the other side ended nothing before its interface went.",
	Fix:    "Read from each tunnel all the time, also where nothing is in it; on GOAWAY take it from the pool, and close it with its last stream.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    behaviour.NodeTraffic,
	Checks:     []assertions.Check{EvictsTunnels()},
	BrokenBy:   []spec.Fault{datapath.KeepsDeadTunnels},
	Resolution: 60 * time.Millisecond,
})

// EvictsTunnels judges that the node proxy of those that dial instances keeps no tunnel to one whose interface has gone. The
// tunnels of our own client are not among them.
func EvictsTunnels() assertions.Check {
	return assertions.Eviction{
		What: "tunnels to a workload", Holder: "the source's proxy", After: "its interface has gone", Clock: "T_net", Within: time.Second,
		Gone: func(_ assertions.Case, t assertions.Ending) assertions.Instant { return t.Net },
		Stood: assertions.Floor{Per: "termination", Name: "tunnels to the workload at its D", N: 1,
			Reason: "one tunnel carries all connections to a workload",
		},
		Looks: assertions.Floor{Per: "termination", Name: "looks at the tunnels later than that after its interface went", N: 1,
			Reason: "one look tells of all that there are",
		},
	}.Check()
}
