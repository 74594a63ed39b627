// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"

	_ "github.com/lastcall-dev/lastcall/suites/all" // the control
)

// The grace periods, and how long after its app's exit a pod is looked at.
const (
	short  = 40 * time.Second
	long   = time.Hour
	lookAt = 60 * time.Second
)

// column is one way in which a strategy is tried: a sidecar's form and a grace period, or a Job.
type column struct {
	Form  system.Form
	Grace time.Duration // 0: it is about Jobs
	// PreStop: its end begins at a preStop hook of its own. A Job's pod, which ends by itself, has none run.
	PreStop bool
}

// part is some columns, which have a run of each strategy to themselves.
type part struct {
	name    string // added to the strategy's
	columns []column
}

var parts = []part{
	{"", []column{
		{system.Plain, short, false}, {system.Plain, long, false}, {system.Plain, 0, false},
		{system.Native, short, false}, {system.Native, long, false}, {system.Native, 0, false},
	}},
	{"-prestop", []column{{system.Native, short, true}, {system.Native, long, true}}},
}

// of is the name of a strategy's run.
func (p part) of(s strategy) string { return s.Name + p.name }

// ids are those of its recordings.
func (p part) ids() []string {
	var out []string
	for _, c := range p.columns {
		out = append(out, c.id())
	}
	return out
}

// columns are those of all parts.
var columns = func() []column {
	var out []column
	for _, p := range parts {
		out = append(out, p.columns...)
	}
	return out
}()

// id is that of the recording's behaviour.
func (c column) id() string {
	kind := map[time.Duration]string{short: "short", long: "long", 0: "job"}[c.Grace]
	if c.PreStop {
		kind = "prestop-" + kind
	}
	return fmt.Sprintf("sidecar.strategy-%s-%s", c.Form, kind)
}

// declare registers what is recorded. Nothing is judged there: each recording is what is counted in.
func declare() {
	for _, c := range columns {
		b := behaviour.Behaviour{
			ID: c.id(), Title: "What becomes of who passes through a sidecar that leaves", Level: spec.May, Profile: spec.Mesh,
			Refs:  []spec.Ref{{Doc: "project", Quote: "What a strategy loses is counted."}},
			Needs: []spec.Feature{spec.Pods, spec.Services, spec.HTTP},
			Why:   "It is disputed.", Causes: "A setting.", Fix: "Choose one.",
			Topology: behaviour.Topology{
				Role: system.Sidecar, Form: c.Form, PreStop: c.PreStop, Replicas: 3, MinDrain: 9 * time.Second, Unready: 3 * time.Second,
				Deadline: 25 * time.Second, Grace: max(c.Grace, short), // a Job's own is of no account
			},
			Disrupt:    disrupt.Disruption{Kind: disrupt.Delete, Targets: 2, Within: 90 * time.Second},
			Traffic:    traffic,
			Checks:     []assertions.Check{{Name: "the recording", Expected: "it is whole", Floors: []assertions.Floor{{Name: "recordings", N: 1}}, Judge: whole}},
			BrokenBy:   []spec.Fault{sidecar.RefusesAtSigterm},
			Resolution: 60 * time.Millisecond,
		}
		if c.Grace == 0 {
			b.Disrupt, b.Traffic = behaviour.RunJobs, traffic[:1]
		}
		behaviour.Register(b)
	}
}

// traffic is what comes in, and what the app sends out, over new connections and over kept ones.
var traffic = []load.Profile{
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 3},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 10},
}

// whole says that there is a recording.
func whole(assertions.Case) spec.Finding {
	var y assertions.Tally
	y.Count(assertions.Floor{Name: "recordings", N: 1}, 1)
	return y.Conclude("it was recorded", "")
}

// share is how many of some were lost.
type share struct{ Lost, Of int }

func (s share) String() string { return fmt.Sprintf("%d of %d", s.Lost, s.Of) }

// cell is what was counted in one recording.
type cell struct {
	Scenario string // its name, in the run's folder
	In, Out  share
	// Stays is how long after its app's exit the pod was gone, the longest of all. Stayed: one was not
	// within lookAt.
	Stays  time.Duration
	Stayed bool
	Pods   int
	// Jobs are what became of them, of a column that is about these.
	Jobs []string
	// Why it can't be told.
	Why string
}

// row is a strategy with its cells, in the order of columns.
type row struct {
	strategy

	Cells []cell
	// Made are its runs, each by its Kubernetes version, suite and day.
	Made []string
}

// measured counts what a strategy's runs recorded.
func measured(dir string, s strategy) (row, error) {
	out := row{strategy: s}
	for _, p := range parts {
		own := filepath.Join(dir, p.of(s))
		report, err := yaml.ReadDir(own)
		if err != nil {
			return out, err
		}
		made := "Kubernetes " + report.Environment.Kubernetes
		if r := report.Suite.Revision; r != "" { // of a binary that was built from a checkout
			made += ", suite " + r
		}
		out.Made = append(out.Made, made+", "+report.Metadata.Date.Format(time.DateOnly))
		for _, c := range p.columns {
			counted, err := c.measured(own)
			if err != nil {
				return out, err
			}
			out.Cells = append(out.Cells, counted)
		}
	}
	return out, nil
}

// measured counts what a column's recording in a run's folder has.
func (c column) measured(dir string) (counted cell, err error) {
	b, _ := behaviour.Find(c.id())
	r, err := behaviour.Open(dir, b.ID)
	if err != nil {
		return cell{}, err
	}
	b.Checks[0].Judge = func(of assertions.Case) spec.Finding {
		counted = count(of)
		return whole(of)
	}
	judged, _ := r.Judge(b)
	if judged.Verdict != spec.Pass {
		counted.Why = judged.Reason
	}
	counted.Scenario = judged.Scenario
	return counted, nil
}

// count counts in a recording.
func count(c assertions.Case) cell {
	var out cell
	for _, t := range c.Terminations {
		out.Pods++
		exit := t.Exit.At
		shut, said := t.SaysShut(c)
		if !said {
			shut = exit
		}
		for _, s := range c.Timeline.Samples {
			to, end := &out.In, shut
			if s.Stream.Flow().Path == flow.Outbound {
				to, end = &out.Out, exit
			}
			if s.Stream.Target() != t.UID || s.End < t.Drain.At || s.Start >= end {
				continue
			}
			// What the app itself refuses, or cuts at its end, is no sidecar's.
			if s.Failed() && (s.End >= exit || to == &out.In && s.Start >= end-atTheDoor) {
				continue
			}
			to.Of++
			if s.Failed() {
				to.Lost++
			}
		}
		gone := last(c, t)
		switch stays := gone - t.Exit.At; {
		case gone == 0 || stays > lookAt:
			out.Stayed = true
		default:
			out.Stays = max(out.Stays, stays)
		}
	}
	for _, e := range c.Timeline.EventsOf(timeline.Job, "") {
		state := e.Attrs["state"]
		if state == "" {
			state = "goes on"
		}
		text := fmt.Sprintf("%s, was to be %s", state, e.Attrs["wants"])
		if by := e.Attrs["by"]; by != "" {
			text += " (by a " + by + ")"
		}
		out.Jobs = append(out.Jobs, text)
	}
	return out
}

// atTheDoor is how long before the app's listener closed a connection may have been on its way to it, and
// was lost with what it had not accepted.
const atTheDoor = 100 * time.Millisecond

// last is when the last process of a pod was gone, and 0 where one was not.
func last(c assertions.Case, t assertions.Ending) time.Duration {
	at, n := time.Duration(0), 0
	for _, e := range c.Timeline.EventsOf(timeline.ProcExit, t.UID) {
		if e.Attrs["container"] != "" && e.At >= t.Drain.At {
			at = max(at, e.At)
			n++
		}
	}
	if n < 2 { // app and sidecar
		return 0
	}
	return at
}
