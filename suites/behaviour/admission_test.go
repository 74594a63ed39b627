// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
)

// oneCore is a price by which scenarios may take one core together.
func oneCore() Price { return Price{Share: 1 / float64(runtime.NumCPU()), GoingUp: 0.2} }

// planned has a control, two that fit beside each other, one that fits beside none, and one that
// touches nodes.
func planned() []Scenario {
	shared := disrupt.DeleteEach(1)
	return []Scenario{
		{Name: "control", Control: true, Cost: 0.3, Disrupt: KillEach},
		{Name: "a", Cost: 0.3, Disrupt: shared}, {Name: "heavy", Cost: 1, Disrupt: shared}, {Name: "b", Cost: 0.2, Disrupt: shared},
		{Name: "node", Cost: 0.1, Disrupt: ShutNode},
	}
}

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roomy := true
		a := newAdmission(oneCore(), "", planned(), make([]int, 5), 1, func(Scenario, float64, time.Time) bool { return roomy })
		running := map[string]admitted{}
		begins := func(when, name string) {
			t.Helper()
			x, ok := a.next()
			if x.Name != name || ok != (name != "") {
				t.Fatalf("%s: %q begins, want %q", when, x.Name, name)
			}
			if ok {
				running[name] = x
			}
		}
		signalled := func(when string) {
			t.Helper()
			select {
			case <-a.changed:
			default:
				t.Errorf("%s: nobody hears of it", when)
			}
		}
		begins("first", "control")
		begins("beside the control", "")
		a.stands(running["control"])
		signalled("the control stands")
		begins("beside a control that stands", "")
		a.ended(running["control"])
		signalled("the control ended")
		begins("after the control", "a")
		begins("while it goes up", "b") // 0.3 and 0.2 of 1
		begins("with no room for the heavy one", "")
		if running["b"].nth != 3 {
			t.Errorf("it is the number %d", running["b"].nth)
		}
		a.stands(running["a"])
		a.stands(running["b"])
		begins("what takes all", "")
		a.ended(running["a"])
		begins("beside one", "")
		a.ended(running["b"])
		begins("when nothing runs", "heavy")
		begins("a node's beside it", "")
		a.ended(running["heavy"])
		if a.over() || !a.waits() {
			t.Error("it is over before the last one")
		}
		begins("at last", "node")
		if a.over() || a.waits() {
			t.Error("it is over while one runs")
		}
		a.ended(running["node"])
		if !a.over() {
			t.Error("it is not over")
		}
	})
}

// turnstile is an admission whose answers are looked at.
type turnstile struct {
	*admission
	t *testing.T
}

func (a turnstile) begins(when, name string, early bool) admitted {
	a.t.Helper()
	x, ok := a.next()
	if x.Name != name || ok != (name != "") || early != (x.clear != nil) {
		a.t.Fatalf("%s: %q begins, early: %t; want %q", when, x.Name, x.clear != nil, name)
	}
	return x
}

// inTail is the first one that begins, in its tail.
func (a turnstile) inTail(name string) admitted {
	a.t.Helper()
	x := a.begins("first", name, false)
	a.stands(x)
	a.tail(x)
	return x
}

// ends has the load of one run, and it ended.
func (a turnstile) ends(x admitted) {
	a.stands(x)
	a.ended(x)
}

// held says whether the load of one waits.
func (a turnstile) held(x admitted) bool { return a.holds(x) != nil }

// whole looks, at the end, at what may be taken then.
func (a turnstile) whole() {
	a.t.Helper()
	if !a.over() || math.Abs(a.lanes.free-a.lanes.cores) > grain || math.Abs(a.lanes.rising) > grain || a.controls != 0 || len(a.tails)+len(a.early) > 0 {
		a.t.Errorf("at the end: %+v, %d controls, tails %v, early %v", a.lanes, a.controls, a.tails, a.early)
	}
}

// What comes next goes up while the last ones end, on a cluster, and has no load before they have.
func TestAdmissionEarly(t *testing.T) {
	p := oneCore()
	admitting := func(t *testing.T, p Price, plan ...Scenario) turnstile {
		return turnstile{newAdmission(p, "", plan, make([]int, len(plan)), 1, func(Scenario, float64, time.Time) bool { return true }), t}
	}
	control, one, heavy, other, node := planned()[0], planned()[1], planned()[2], planned()[3], planned()[4]
	third := Scenario{Name: "c", Cost: 0.2, Disrupt: disrupt.DeleteEach(1)}

	t.Run("one after the other", func(t *testing.T) {
		a := admitting(t, p, control, one, heavy, other, third, node)
		k := a.begins("first", "control", false)
		a.stands(k)
		a.begins("beside a control under load", "", false)
		a.tail(k)
		x := a.begins("in its tail", "a", true)
		y := a.begins("beside one that goes up early", "b", true)
		a.begins("beside two", "", false)
		a.stood(x)
		a.stood(y)
		if !a.held(x) || !a.held(y) {
			t.Error("there is load beside a control")
		}
		a.ended(k)
		if a.held(x) || a.held(y) {
			t.Error("there is none when that has ended")
		}
		z := a.begins("then", "c", false)
		for _, one := range []admitted{x, y, z} {
			a.stands(one)
		}
		a.tail(x)
		a.tail(y)
		a.begins("what takes all, while one is under load", "", false)
		a.tail(z)
		h := a.begins("what takes all, in all tails", "heavy", true)
		a.begins("beside one that takes all", "", false)
		a.ended(x)
		a.ended(y)
		a.stood(h)
		if !a.held(h) {
			t.Error("it has load beside one")
		}
		a.ended(z)
		if a.held(h) {
			t.Error("it has none when all have ended")
		}
		a.stands(h)
		a.tail(h)
		n := a.begins("a node's, in the tail of the last one", "node", true)
		a.ends(n) // broken off
		a.ended(h)
		a.whole()
	})

	t.Run("all of them stand before one has load", func(t *testing.T) {
		for _, broken := range []bool{false, true} {
			a := admitting(t, p, heavy, one, other)
			h := a.inTail("heavy")
			x, y := a.begins("in its tail", "a", true), a.begins("beside that", "b", true)
			a.stood(x)
			a.ended(h)
			if !a.held(x) {
				t.Error("it has load while another one goes up")
			}
			if broken {
				a.ends(y)
			} else {
				a.stood(y)
			}
			if a.held(x) || !broken && a.held(y) {
				t.Errorf("it has none when that stands, or was broken off: %t", broken)
			}
			a.ends(x)
			if !broken {
				a.ends(y)
			}
			a.whole()
		}
	})

	t.Run("behind a control that is recorded again", func(t *testing.T) {
		a := admitting(t, p, control, one, other)
		k := a.inTail("control")
		x := a.begins("in its tail", "a", true)
		a.again(k)
		a.begins("when it is recorded again", "", false)
		if !a.held(k) {
			t.Error("it has load while another one goes up")
		}
		a.stood(x)
		if a.held(k) || !a.held(x) {
			t.Errorf("when that stands the control waits: %t, and the other one: %t", a.held(k), a.held(x))
		}
		a.tail(k)
		y := a.begins("in its tail, again", "b", true)
		a.stood(y)
		a.ended(k)
		for _, z := range []admitted{x, y} {
			if a.held(z) {
				t.Errorf("%s waits for nobody", z.Name)
			}
			a.ends(z)
		}
		a.whole()
	})

	t.Run("behind two controls", func(t *testing.T) {
		a := admitting(t, p, control, control, one)
		k, l := a.begins("first", "control", false), a.begins("beside it", "control", false)
		a.stands(k)
		a.stands(l)
		a.tail(k)
		a.again(k)
		a.tail(l)
		a.begins("beside a control that is recorded again", "", false)
		a.tail(k)
		x := a.begins("in both tails", "a", true)
		a.stood(x)
		a.ended(k)
		if !a.held(x) {
			t.Error("it has load beside a control")
		}
		a.ended(l)
		if a.held(x) {
			t.Error("it waits for nobody")
		}
		a.ends(x)
		a.whole()
	})

	t.Run("three light controls, and nothing else beside them", func(t *testing.T) {
		light := func(name string) Scenario { return Scenario{Name: name, Control: true, Cost: 0.2} }
		dear := Scenario{Name: "control", Control: true, Cost: 0.9}
		a := admitting(t, p, dear, light("x"), light("y"), light("z"), light("4"), one)
		a.inTail("control")
		for _, name := range []string{"x", "y", "z"} {
			a.begins("in its tail", name, true)
		}
		a.begins("beside three", "", false)
		b := admitting(t, p, dear, light("x"), one)
		b.inTail("control")
		b.begins("in its tail", "x", true)
		b.begins("beside a control", "", false)
	})

	t.Run("what never goes up early", func(t *testing.T) {
		late := other
		late.Topology.Late = time.Second
		a := admitting(t, p, heavy, late)
		a.inTail("heavy")
		a.begins("an app that calls others from its start on", "", false)
		measured := p
		measured.Measured = true
		a = admitting(t, measured, heavy, one)
		a.inTail("heavy")
		a.begins("on a host, where that takes no time", "", false)
	})
}

// Who waits until its load may begin is told so once, and hears when the run ends first.
func TestAdmissionAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(oneCore(), "", planned()[:2], make([]int, 2), 1, func(Scenario, float64, time.Time) bool { return true })
		k, _ := a.next()
		a.tail(k)
		x, _ := a.next()
		stopped := errors.New("stopped")
		soon, cancel := context.WithTimeoutCause(t.Context(), time.Second, stopped)
		defer cancel()
		told := 0
		if err := a.await(soon, x, func() { told++ }); !errors.Is(err, stopped) || told != 1 {
			t.Errorf("it is told %d times, and ends by %v", told, err)
		}
		time.AfterFunc(time.Minute, func() { a.stood(x) })
		time.AfterFunc(time.Hour, func() { a.ended(k) })
		began := time.Now()
		if err := a.await(t.Context(), x, func() { told++ }); err != nil || told != 2 || time.Since(began) != time.Hour {
			t.Errorf("it is told %d times, and let after %s: %v", told, time.Since(began), err)
		}
		if err := a.await(t.Context(), x, func() { told++ }); err != nil || told != 2 {
			t.Errorf("where nothing holds it: told %d times, %v", told, err)
		}
	})
}

// What waits for nothing but the machine is told after a while, and once.
func TestAdmissionStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := planned()[1:]
		a := newAdmission(oneCore(), "", plan, make([]int, len(plan)), 1, func(Scenario, float64, time.Time) bool { return false })
		first, ok := a.next()
		if !ok || first.Name != "a" {
			t.Fatalf("what is alone needs no room: %q", first.Name)
		}
		if x, ok := a.next(); ok {
			t.Fatalf("%s begins where there is no room", x.Name)
		}
		<-time.After(waitingFor - time.Nanosecond)
		if _, _, _, yes := a.starved(); yes {
			t.Error("it is told too soon")
		}
		<-time.After(time.Nanosecond)
		if running, waiting, begun, yes := a.starved(); !yes || running != 1 || waiting != 3 || begun != 1 {
			t.Errorf("%d run, %d wait, %d began: %t", running, waiting, begun, yes)
		}
		if _, _, _, yes := a.starved(); yes {
			t.Error("it is told twice")
		}
		if left := a.stop(0); len(left) != 3 || a.waits() || a.over() {
			t.Errorf("%d were given up", len(left))
		}
		a.ended(first)
		if !a.over() {
			t.Error("it is not over")
		}
	})
}

// What can't begin for its cost is not the machine's fault.
func TestAdmissionIsNotStarvedByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := planned()[1:3]
		a := newAdmission(oneCore(), "", plan, make([]int, len(plan)), 1, func(Scenario, float64, time.Time) bool { return true })
		if x, ok := a.next(); !ok || x.Name != "a" {
			t.Fatal(x.Name)
		}
		<-time.After(2 * waitingFor)
		if _, _, _, yes := a.starved(); yes {
			t.Error("the heavy one waits for what runs, and it is laid at the machine's door")
		}
	})
}

// Light controls are recorded beside each other, as many as fit, and beside nothing else; one under load is alone.
func TestLightControls(t *testing.T) {
	control := func(name string, cost float64) Scenario { return Scenario{Name: name, Control: true, Cost: cost} }
	plan := []Scenario{control("heavy", 0.9), control("x", 0.2), control("y", 0.2), control("z", 0.1), {Name: "a", Cost: 0.1}}
	a := newAdmission(oneCore(), "", plan, make([]int, 5), 1, func(Scenario, float64, time.Time) bool { return true })
	running := map[string]admitted{}
	begins := func(when, name string) {
		t.Helper()
		x, ok := a.next()
		if x.Name != name || ok != (name != "") {
			t.Fatalf("%s: %q begins, want %q", when, x.Name, name)
		}
		running[x.Name] = x
	}
	begins("first", "heavy")
	begins("beside it", "")
	a.ended(running["heavy"])
	begins("behind it", "x")
	begins("beside a light one", "y")
	a.stands(running["x"])
	a.stands(running["y"])
	begins("where there is room", "z")
	begins("what is no control, beside them", "")
	a.ended(running["x"])
	a.ended(running["y"])
	begins("beside the last one", "")
	a.ended(running["z"])
	begins("behind them all", "a")
}
