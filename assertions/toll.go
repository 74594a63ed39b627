// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"iter"
	"slices"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// attempts is what came of the attempts of a window: all of them, those that the
// generator sent in time, and those that were lost.
type attempts struct{ all, sound, lost int }

// ends are the endings that a check is about, and how it speaks of them.
type ends struct {
	of []Ending
	// one and many are the words for them: "termination", "terminations".
	one, many string
	// none is the doubt where there are none of them.
	none string
}

// terminated are the endings of instances that were ended themselves.
func (c Case) terminated() ends {
	return ends{c.Terminations, "termination", "terminations", "no pod was seen to terminate"}
}

// calledToDrain are the endings that a call to drain led to, by the caller's words for them.
func (c Case) calledToDrain(one, many string) ends {
	called := slices.DeleteFunc(slices.Clone(c.Endings), func(e Ending) bool { return !e.Called.Known() })
	return ends{called, one, many, "no pod was called to drain"}
}

// ends says how many terminations there were.
func (c Case) ends() string { return c.terminated().String() }

func (e ends) String() string { return plural(len(e.of), e.one, e.many) }

// toll judges endings one after the other, and counts what each had of a check's evidence,
// and what it cost: together they are what the finding says of how sure it is.
type toll struct {
	*gather
	ends
	sum attempts // of all of them together
	// hit are the endings at which attempts were lost, and broken those that have culprits.
	hit, broken int
	nth         int // of the ending at hand
}

// toll is one of a check's own, with nothing counted.
func (g *gather) toll(of ends) *toll { return &toll{gather: g, ends: of} }

// each is the endings in the order in which they began. That there were none is a doubt.
func (n *toll) each() iter.Seq[Ending] {
	return func(yield func(Ending) bool) {
		for i, e := range n.of {
			before := n.failures()
			n.nth = i
			if !yield(e) {
				return
			}
			if n.failures() > before {
				n.broken++
			}
		}
		n.need()
	}
}

// next is the ending that began after the one at hand.
func (n *toll) next() (_ Ending, follows bool) {
	if n.nth+1 == len(n.of) {
		return Ending{}, false
	}
	return n.of[n.nth+1], true
}

// need doubts a recording that has none of the endings.
func (n *toll) need() {
	if len(n.of) == 0 {
		n.doubt("%s", n.none)
	}
}

// add counts what came of attempts of the ending at hand: all that is known of it at once.
func (n *toll) add(of ...attempts) {
	lost := 0
	for _, w := range of {
		n.sum.all, n.sum.sound, lost = n.sum.all+w.all, n.sum.sound+w.sound, lost+w.lost
	}
	n.sum.lost += lost
	if lost > 0 {
		n.hit++
	}
}

// has holds what the ending at hand has of a floor's evidence against it: the finding keeps
// the ending that has least of it.
func (n *toll) has(f Floor, count int) { n.least(f, n.of[n.nth].Name, count) }

// hasOf is has for one of several.
func (n *toll) hasOf(of string, f Floor, count int) { n.leastOf(of, f, n.of[n.nth].Name, count) }

// bound says how sure it is that so many of the endings cost something: of n attempts, of all
// of them together, so many were lost.
func (n *toll) bound(affected, all, lost int) {
	n.finding.Bounds = spec.BoundsOf(len(n.of), affected, all, lost)
}

// needTerminations doubts a recording in which nothing terminated.
func (g *gather) needTerminations(c Case) { g.toll(c.terminated()).need() }
