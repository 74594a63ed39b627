// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

func throughService(s timeline.Sample) bool { return s.Stream.Flow().Path == flow.Service }

func directTo(s timeline.Sample, uid string) bool {
	return s.Stream.Target() == uid && s.Stream.Flow().Path == flow.Direct
}

func onNewConns(s timeline.Sample) bool { return s.Stream.Flow().Conns == flow.New }

// Short says whether the sample's operation takes no time by design, over a path without
// delay.
func Short(s timeline.Sample) bool { return !slowOp(s) && delay(s) == 0 }

// slowOp says whether the sample's operation takes time by design.
func slowOp(s timeline.Sample) bool {
	op := s.Stream.Flow().Op
	return op != flow.Get && op != flow.Discover && op != flow.Certify && !s.Brief
}
