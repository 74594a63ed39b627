// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// admission says which scenario of a plan may begin: the controls, alone or beside light ones, then what can run side by
// side, as far as its CPU cost and the machine allow, then what can't; and when its load may, where it went up before the others
// had ended. Its methods may be called from many goroutines.
type admission struct {
	price Price
	fault spec.Fault
	// room says whether the machine, of so many cores for what stands, has the time for one
	// scenario more, by what it has used since an instant. It is asked where something runs.
	room func(s Scenario, cores float64, since time.Time) bool
	// changed has something in it when one stands or has ended since it was last read.
	changed chan struct{}

	mu      sync.Mutex
	waiting []Scenario
	of      []int // of which recorder each is that waits
	begun   int
	lanes   lanes
	// controls are those of what runs that are light.
	controls int
	// tails are the numbers of those that run and whose disruption is over.
	tails map[int]bool
	// early are those that go up while others end, earlyMost at most, or lightMost controls.
	early []admitted
	told  bool // that they wait
}

// admitted is a scenario that may begin: the nth of all, and of which recorder it is.
type admitted struct {
	Scenario
	nth   int
	of    int
	takes lane
	// Of one that goes up early: stood is closed when its pods are up, and clear when its load may begin; nil: at once.
	stood, clear chan struct{}
}

// earlyMost is how many go up at once while others end. Each should stand by the time the others have ended; a third one would not.
// Of light controls it may: they are short, so that each turn of theirs is mostly waiting for pods.
const (
	earlyMost = 2
	lightMost = 3
)

func newAdmission(p Price, fault spec.Fault, plan []Scenario, of []int, cores float64, room func(Scenario, float64, time.Time) bool) *admission {
	return &admission{
		price: p, fault: fault, room: room, changed: make(chan struct{}, 1),
		waiting: slices.Clone(plan), of: slices.Clone(of), lanes: lanes{cores: cores, free: cores}, tails: map[int]bool{},
	}
}

// next takes the first scenario out that may begin now; false where none may. On a cluster some may go up, without load, while
// the last ones of those before them end: it takes a quarter of a recording, and most of that is waiting.
func (a *admission) next() (admitted, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, early := -1, false
	if len(a.early) == 0 {
		i = pick(a.waiting, a.fault, a.lanes.running, a.controls, func(s Scenario) bool {
			return a.fits(s) && (a.lanes.running == 0 || a.room(s, a.lanes.loaded(), a.lanes.changed))
		})
	}
	if i < 0 && a.ending() {
		i, early = a.pickEarly(), true
	}
	if i < 0 {
		return admitted{}, false
	}
	s, of := a.waiting[i], a.of[i]
	a.waiting, a.of = slices.Delete(a.waiting, i, i+1), slices.Delete(a.of, i, i+1)
	a.begun++
	x := admitted{Scenario: s, nth: a.begun, of: of, takes: a.price.takes(s)}
	switch {
	case s.light(a.fault):
		a.controls++
	case alone(s, a.fault):
		x.takes = lane{a.lanes.cores, a.lanes.cores}
	}
	a.lanes.begin(x.takes, time.Now())
	a.told = false
	if early {
		x.stood, x.clear = make(chan struct{}), make(chan struct{})
		a.early = append(a.early, x)
	}
	return x, true
}

// fits says whether enough is free for a scenario to go up.
func (a *admission) fits(s Scenario) bool { return a.price.takes(s).goesUp <= a.lanes.free+grain }

// ending says whether the disruptions of all that have load are over, on a stage where going up takes its time.
func (a *admission) ending() bool {
	loaded := a.lanes.running - len(a.early)
	return !a.price.Measured && loaded > 0 && loaded == len(a.tails)
}

// pickEarly is the one that would begin beside those that go up early if the rest had ended. None of them has load before all of them
// stand, so that each takes what it takes then. An app that calls others from its own start on (Late) has load before that.
func (a *admission) pickEarly() int {
	free, controls := a.lanes.cores, 0
	for _, x := range a.early {
		free -= x.takes.stands
		if x.light(a.fault) {
			controls++
		}
	}
	most := earlyMost
	if controls == len(a.early) {
		most = lightMost // beside controls there are only such
	}
	if len(a.early) >= most {
		return -1
	}
	return pick(a.waiting, a.fault, len(a.early), controls, func(s Scenario) bool {
		return a.price.takes(s).stands <= free+grain && s.Topology.Late == 0
	})
}

// stood is called when the pods of one are up.
func (a *admission) stood(x admitted) {
	a.change(func() {
		x.wentUp()
		a.release()
	})
}

// wentUp closes stood, once. The admission's lock is for it.
func (x admitted) wentUp() {
	if x.stood != nil && !closed(x.stood) {
		close(x.stood)
	}
}

// release lets those that went up early have load when they stand and all before them have ended.
func (a *admission) release() {
	if a.lanes.running > len(a.early) || slices.ContainsFunc(a.early, func(e admitted) bool { return !closed(e.stood) }) {
		return
	}
	for _, e := range a.early {
		close(e.clear)
	}
	a.early = nil
}

// await waits until the load of one may begin: where it went up early until it is let, and where it is recorded again until
// nobody goes up beside it. waits is called where there is something to wait for.
func (a *admission) await(ctx context.Context, x admitted, waits func()) error {
	for first := true; ; first = false {
		ch := a.holds(x)
		if ch == nil {
			return nil
		}
		if first {
			waits()
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// holds is closed when it is not what the load of one waits for any more; nil: the load may begin.
func (a *admission) holds(x admitted) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.clear != nil && !closed(x.clear) {
		return x.clear
	}
	for _, e := range a.early {
		if !closed(e.stood) {
			return e.stood
		}
	}
	return nil
}

// tail is called when the disruption of one is over.
func (a *admission) tail(x admitted) { a.change(func() { a.tails[x.nth] = true }) }

// again is called when one is recorded again: it will be under load.
func (a *admission) again(x admitted) { a.change(func() { delete(a.tails, x.nth) }) }

// stands is called when the load of one that began runs.
func (a *admission) stands(x admitted) { a.change(func() { a.lanes.up(x.takes) }) }

// ended is called when one that stood is no more.
func (a *admission) ended(x admitted) {
	a.change(func() {
		a.lanes.end(x.takes, time.Now())
		if x.light(a.fault) {
			a.controls--
		}
		delete(a.tails, x.nth)
		x.wentUp() // or was broken off: nobody waits for its pods
		a.early = slices.DeleteFunc(a.early, func(e admitted) bool { return e.nth == x.nth })
		a.release()
	})
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (a *admission) change(how func()) {
	a.mu.Lock()
	how()
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// stop gives up what has not begun of a recorder's.
func (a *admission) stop(of int) []admitted {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []admitted
	var waiting []Scenario
	var owners []int
	for i, s := range a.waiting {
		if a.of[i] == of {
			out = append(out, admitted{Scenario: s, of: of})
		} else {
			waiting, owners = append(waiting, s), append(owners, a.of[i])
		}
	}
	a.waiting, a.of = waiting, owners
	return out
}

// over says whether nothing waits and nothing runs.
func (a *admission) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting) == 0 && a.lanes.running == 0
}

// waits says whether something waits.
func (a *admission) waits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting) > 0
}

// starved says that scenarios have waited for long, and for nothing but the machine's time: once,
// until the next one begins. begun is how many began until now.
func (a *admission) starved() (running, waiting, begun int, yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told || time.Since(a.lanes.changed) < waitingFor || pick(a.waiting, a.fault, a.lanes.running, a.controls, a.fits) < 0 {
		return 0, 0, 0, false
	}
	a.told = true
	return a.lanes.running, len(a.waiting), a.begun, true
}
