// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What the clients are asked for. Sixteen is how many connections the probe keeps.
const (
	costRate     = 2000
	scheduleRate = 5000
	outageRate   = 1000
	conns        = 16
)

// lengths are those of the outages.
var lengths = []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond}

// plan is what is measured, and how often.
type plan struct {
	peers   []*peer
	rounds  int
	lasts   time.Duration
	outages int
	idle    int
	what    string
}

// kind is one thing that is measured of a client.
type kind struct {
	what   string
	new    bool
	length time.Duration // of an outage
}

// runs are the runs of all clients.
type runs map[kind]map[*peer][]measured

func (p plan) kinds() []kind {
	all := []kind{{what: "cpu"}, {what: "cpu", new: true}, {what: "schedule"}, {what: "memory"}}
	for _, l := range lengths {
		all = append(all, kind{"outages", true, l}, kind{"outages", false, l})
	}
	wanted := strings.Split(p.what, ",")
	return slices.DeleteFunc(all, func(k kind) bool { return !slices.Contains(wanted, k.what) })
}

// lacks says why a client is not measured, or nothing.
func (k kind) lacks(c *peer) string {
	switch {
	case c.needs != "":
		return "not measured: not installed"
	case k.what == "schedule" && c.closed:
		return "has no rate"
	case k.what == "outages" && k.new && c.name == "h2load":
		return "fails requests by itself where each has a connection"
	default:
		return ""
	}
}

// measure measures the clients in turn, and each round begins with another one.
func (p plan) measure(ctx context.Context, b *bench) (runs, error) {
	all := runs{}
	for round := range p.rounds {
		for _, k := range p.kinds() {
			if all[k] == nil {
				all[k] = map[*peer][]measured{}
			}
			for i := range p.peers {
				c := p.peers[(i+round)%len(p.peers)]
				if k.lacks(c) != "" {
					continue
				}
				m, err := p.one(ctx, b, c, k)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if err != nil {
					return nil, fmt.Errorf("%s, %+v: %w", c.name, k, err)
				}
				b.log("round %d of %d: %s new=%v %v: %s: %d requests in %.1fs (%d opened), %d failed, gate reset %d; cpu %v, peak %.1f MiB, stolen %.0f‰",
					round+1, p.rounds, k.what, k.new, k.length, c.name, m.count.Requests, m.took.Seconds(), m.count.Opened, m.result.Failed, m.count.Refused,
					m.cpu.Round(time.Millisecond), float64(m.peak)/(1<<20), 1000*m.stolen)
				all[k][c] = append(all[k][c], m)
			}
		}
	}
	return all, nil
}

func (p plan) one(ctx context.Context, b *bench, c *peer, k kind) (measured, error) {
	t := task{Rate: costRate, Lasts: p.lasts, Conns: conns, New: k.new}
	switch k.what {
	case "cpu":
		if c.closed {
			// All that it can: it would run out of ports in the time of the others.
			t.Lasts = time.Second
		}
		return b.run(ctx, c, t, false, nil)
	case "schedule":
		t.Rate = scheduleRate
		return b.run(ctx, c, t, true, nil)
	case "memory":
		t.Rate, t.Conns, t.Hold = 1000, p.idle, true
		t.Lasts = time.Duration(float64(p.idle) / t.Rate * float64(time.Second))
		if c.name == "fortio" {
			// It takes connections away where each has less than two requests, and
			// opens all of them at once.
			t.Lasts *= 3
		}
		return b.run(ctx, c, t, false, b.hold(ctx, p.idle))
	default:
		times := max(1, p.outages/p.rounds)
		t.Rate = outageRate
		// The longest that they can take, and a second around it.
		t.Lasts = (time.Duration(times)*(31*time.Millisecond+k.length) + 2*time.Second).Round(time.Second)
		return b.run(ctx, c, t, false, b.shut(ctx, k.length, times))
	}
}
