// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Failed adds a request that failed, as is told of an instant: a culprit, and where its client
// only gave up, one for when something happened (Late). target is the name of the instance that it
// is about, and format what is told before what became of the request.
func (y *Tally) Failed(c Case, s timeline.Sample, at time.Duration, target, format string, args ...any) {
	y.gather.failed(c, s, at, target, "%s: %s", fmt.Sprintf(format, args...), describe(s))
}

// Blames adds a culprit that is one on any machine.
func (y *Tally) Blames(at time.Duration, target, id, format string, args ...any) {
	y.gather.culprit(at, target, id, format, args...)
}
