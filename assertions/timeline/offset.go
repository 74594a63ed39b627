// SPDX-License-Identifier: Apache-2.0

package timeline

import "time"

// drift is how far two machines' clocks go apart in a second, at most: quartz is some 50 ppm off, and a kernel that is told of it
// (adjtimex) slews its clock by up to 500 ppm.
const drift = 500 * time.Microsecond

// Offset is what times of another process lack of this one's Monotonic. Zero of both on one boot.
type Offset struct {
	// Boot is theirs: see BootID.
	Boot string
	// Add is what has to be added to their times.
	Add time.Duration

	err time.Duration // how wrong Add could be, to either side, when the clocks were compared
	at  time.Duration // when that was; 0: it is one clock
}

// Compare compares two clocks by a question and its answer: theirs was read between before and after, which are ours.
func Compare(ours, their string, before, theirs, after time.Duration) Offset {
	if their == ours {
		return Offset{Boot: their}
	}
	half := (after - before) / 2
	return Offset{Boot: their, Add: before + half - theirs, err: half, at: after}
}

// Same says that it is one clock, or was never compared.
func (o Offset) Same() bool { return o.at == 0 }

// Err is how wrong it is by now at most, to either side.
func (o Offset) Err(now time.Duration) time.Duration {
	if o.Same() {
		return 0
	}
	return o.err + time.Duration(float64(drift)*(now-o.at).Seconds())
}

// Or is the one that is less wrong by the time of the later comparison, which is that of next: a slow answer does not
// replace what a quick one said. What was compared with another boot says nothing of this one.
func (o Offset) Or(next Offset) Offset {
	if o.Boot == next.Boot && o.Err(next.at) < next.err {
		return o
	}
	return next
}
