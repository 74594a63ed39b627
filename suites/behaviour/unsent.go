// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions"
)

// unsent says that the clients left requests out since the gate opened, because too much
// was in flight; "" where they did not. What they have left out before is of no stretch
// that is judged.
func unsent(c assertions.Case) string {
	n, first := 0, ""
	for _, s := range c.Unsent {
		if s.Start < c.Steady {
			continue
		}
		if n == 0 {
			first = fmt.Sprintf("%s: %s", s.Stream, s.Err)
		}
		n++
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d requests were due and not sent, because those before them were not over: the system stood still, or the machine has too little CPU for its clients (the first of %s)", n, first)
}
