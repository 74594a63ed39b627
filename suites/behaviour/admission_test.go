// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
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

// What comes next goes up while the last ones end, on a cluster, and has no load before they have.
func TestAdmissionEarly(t *testing.T) {
	p := oneCore()
	plan := append(planned(), Scenario{Name: "c", Cost: 0.2, Disrupt: disrupt.DeleteEach(1)})
	a := newAdmission(p, "", plan, make([]int, 6), 1, func(Scenario, float64, time.Time) bool { return true })
	begins := func(when, name string, early bool) admitted {
		t.Helper()
		x, ok := a.next()
		if x.Name != name || ok != (name != "") || early != (x.clear != nil) {
			t.Fatalf("%s: %q begins, early: %t; want %q", when, x.Name, x.clear != nil, name)
		}
		return x
	}
	clear := func(x admitted) bool {
		select {
		case <-x.clear:
			return true
		default:
			return false
		}
	}
	control := begins("first", "control", false)
	a.stands(control)
	begins("beside a control under load", "", false)
	a.tail(control, true)
	first := begins("in its tail", "a", true)
	second := begins("beside one that goes up early", "b", true)
	begins("beside two", "", false)
	if clear(first) || clear(second) {
		t.Error("there is load beside a control")
	}
	a.ended(control)
	if !clear(first) || !clear(second) {
		t.Error("there is none when that has ended")
	}
	third := begins("then", "c", false)
	a.stands(first)
	a.stands(second)
	a.stands(third)
	a.tail(first, true)
	a.tail(second, true)
	begins("what takes all, while one is under load", "", false)
	a.tail(third, true)
	heavy := begins("what takes all, in all tails", "heavy", true)
	begins("beside one that takes all", "", false)
	a.ended(first)
	a.ended(second)
	if clear(heavy) {
		t.Error("it has load beside one")
	}
	a.ended(third)
	if !clear(heavy) {
		t.Error("it has none when all have ended")
	}
	a.stands(heavy)
	a.tail(heavy, true)
	node := begins("a node's, in the tail of the last one", "node", true)
	a.ended(node) // broken off
	if clear(node) {
		t.Error("what was broken off has load")
	}
	a.ended(heavy)
	if !a.over() {
		t.Error("it is not over")
	}
	// Of two controls beside each other one is recorded again, in the tail of the other.
	controls := []Scenario{planned()[0], planned()[0], planned()[1]}
	a = newAdmission(p, "", controls, make([]int, 3), 1, func(Scenario, float64, time.Time) bool { return true })
	one, other := begins("first", "control", false), begins("beside it", "control", false)
	a.stands(one)
	a.stands(other)
	a.tail(one, true)
	a.tail(one, false)
	a.tail(other, true)
	begins("beside a control that is recorded again", "", false)
	a.tail(one, true)
	begins("in both tails", "a", true)
	measured := p
	measured.Measured = true
	b := newAdmission(measured, "", planned(), make([]int, 5), 1, func(Scenario, float64, time.Time) bool { return true })
	x, _ := b.next()
	b.stands(x)
	b.tail(x, true)
	if y, ok := b.next(); ok {
		t.Errorf("%s goes up early on a host, where that takes no time", y.Name)
	}
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
