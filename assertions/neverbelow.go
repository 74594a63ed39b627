// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// NeverBelow judges that a rolling update leaves so many pods ready at each
// instant as was promised: all but unavailable. The promise is the caller's:
// a Deployment that was given another strategy has broken it too.
func NeverBelow(unavailable int) Check {
	expected := "at no instant are fewer pods ready and not deleted than the Deployment has replicas, and its own maxUnavailable is 0, as the suite planned it"
	if unavailable > 0 {
		expected = fmt.Sprintf("at no instant are fewer pods ready and not deleted than the Deployment's replicas minus %d, and its own maxUnavailable is no more than that, as the suite planned it", unavailable)
	}
	deletionsFloor := Floor{Name: "deletions of the Deployment's pods", N: 2,
		Reason: "a number of pods at every instant is judged, and not a rate; a recording that shows fewer pods replaced than the Deployment has is inconclusive besides",
	}
	return Check{
		Name:     "pods that are ready and not deleted, at each instant of the rolling update",
		Expected: expected,
		Floors:   []Floor{deletionsFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			r, ok := g.rollingUpdate(c)
			if !ok {
				return g.conclude("", "")
			}
			g.count(deletionsFloor, len(r.deletions()))
			promised := func(at time.Duration) int { return r.saysAt(at).replicas - unavailable }
			if n := r.readyAt(r.begin - 1); n < promised(r.begin) {
				g.doubt("%s ready before the rolling update began, and %d are promised", plural(n, "pod was", "pods were"), promised(r.begin))
				return g.conclude("", "")
			}
			fewest := r.readyAt(r.begin)
			var below *dip
			for _, at := range append(r.instants(), r.end) {
				n := r.readyAt(at)
				fewest = min(fewest, n)
				if n < promised(at) && at < r.end {
					if below == nil {
						below = &dip{at: at, fewest: n}
						below.pod, below.deleted = r.changedAt(at)
					}
					below.fewest = min(below.fewest, n)
					continue
				}
				if below == nil {
					continue
				}
				if missed := g.starved(c, below.at, at); missed != "" && !below.deleted {
					g.doubt("%s ceased to be ready while %s", below.pod, missed)
				} else {
					g.culprit(below.at, below.pod, "", "from here on fewer pods than the promised %d were ready, for %s: down to %d", promised(below.at), ms(at-below.at), below.fewest)
				}
				below = nil
			}
			dipped := g.failures() > 0
			for _, s := range r.says {
				if s.unavailable > unavailable && s.at <= r.end {
					g.certain(max(s.at, r.begin), "", "", "the Deployment itself lets %s be unavailable, and the promise is %d at most", plural(s.unavailable, "pod", "pods"), unavailable)
					break
				}
			}
			broken := fmt.Sprintf("at times only %s ready, and %d were promised", plural(fewest, "pod was", "pods were"), promised(r.begin))
			if !dipped {
				broken = fmt.Sprintf("the Deployment lets more pods be unavailable than was promised; as it went, never fewer than %s ready", plural(fewest, "pod was", "pods were"))
			}
			return g.conclude(
				fmt.Sprintf("never fewer than %d of %d pods were ready, over %d deletions", fewest, r.saysAt(r.begin).replicas, len(r.deletions())), broken)
		},
	}
}

// dip is a stretch with too few pods, and the pod that it began with.
type dip struct {
	at      time.Duration
	pod     string
	deleted bool
	fewest  int
}

// instants are those at which the number of ready pods may have changed, in
// order, from the begin on. What one update of the watch tells is one instant.
func (r rollout) instants() []time.Duration {
	out := []time.Duration{r.begin}
	for _, p := range r.pods {
		if p.left >= r.begin {
			out = append(out, p.left)
		}
		for _, x := range p.ready {
			if x.at >= r.begin {
				out = append(out, x.at)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r rollout) readyAt(at time.Duration) int {
	n := 0
	for _, p := range r.pods {
		if _, ready := p.readySince(at); ready {
			n++
		}
	}
	return n
}

// changedAt names a pod that left, or else ceased to be ready, at an instant.
func (r rollout) changedAt(at time.Duration) (name string, left bool) {
	for _, p := range r.pods {
		if p.left == at {
			return p.name, true
		}
		if slices.Contains(p.ready, readiness{at: at}) {
			name = p.name
		}
	}
	return name, false
}
