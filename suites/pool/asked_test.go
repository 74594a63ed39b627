// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const sec = time.Second

// judge puts a check to a recording.
func judge(k assertions.Check) func(*timeline.Timeline) spec.Finding {
	return func(tl *timeline.Timeline) spec.Finding { return k.Run(assertions.NewCase(tl, scene.P)) }
}

// sixTimes builds something for six connections, at instants 30 ms apart.
func sixTimes(build func(at time.Duration)) {
	for i := range 6 {
		build(time.Duration(i) * 30 * time.Millisecond)
	}
}
