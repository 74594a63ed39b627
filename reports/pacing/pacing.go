// SPDX-License-Identifier: Apache-2.0

// Package pacing says how long a rollout has to wait at each new replica until the
// agents that reach the replicas through one balancer are back: the arithmetic of
// gravitational/teleport issue 13129, and the exact answer beside it.
//
// The model is the thread's. An agent holds a tunnel to each replica. It can't choose
// which one the balancer gives it: each try reaches each of N replicas with probability
// 1/N. Try 0 comes at once, and before try n it waits for 2n to 4n seconds, all of them
// equally likely. A try that reaches a replica whose tunnel is missing is a success, and
// the count of tries starts anew. A try itself takes no time.
package pacing

import (
	"errors"
	"fmt"
	"math"
)

const (
	// maxReplicas and horizonLimit keep what is computed within a second or two, and
	// leastTail keeps it above what float64 can tell from nothing.
	maxReplicas  = 10_000
	horizonLimit = 1e6 // seconds, 11 days: no rollout waits for that at each replica
	leastTail    = 1e-9
)

// Question is what is asked: when are so many agents back, with that probability?
type Question struct {
	// Replicas is how many the balancer picks from, the new ones among them.
	Replicas    int     `json:"replicas"`
	Probability float64 `json:"probability"`
	// Agents have all to be back.
	Agents int `json:"agents"`
	// Missing is how many tunnels each agent has lost.
	Missing int `json:"missing"`
}

// Answer is what the thread's table and formula say, and what is so.
type Answer struct {
	Question `json:",inline"`
	// Each is the probability with which each agent has to be back, for all to be
	// with the one asked for: its Agents-th root.
	Each float64 `json:"each"`
	// Table and Formula are the thread's, for one missing tunnel.
	Table   Table   `json:"table"`
	Formula float64 `json:"formula"`
	// Bound is what the formula stands for, with whole retries.
	Bound Bound `json:"bound"`
	Exact Exact `json:"exact"`
	// MinReadySeconds is the exact time and its error, rounded up.
	MinReadySeconds int `json:"minReadySeconds"`

	// Simulated is there when it was asked for.
	Simulated *Simulated `json:"simulated,omitempty"`

	// Time is the time of one agent.
	Time *Distribution `json:"-"`
}

// Table is a row of the thread's table.
type Table struct {
	Retries float64 `json:"retries"`
	From    float64 `json:"from"`
	To      float64 `json:"to"`
}

// Bound is the least whole number of retries that is enough with the probability of
// each agent, and the longest that these can wait.
type Bound struct {
	Retries int     `json:"retries"`
	Seconds float64 `json:"seconds"`
}

// Exact is the time by which the agents are back with the probability asked for.
type Exact struct {
	Seconds float64 `json:"seconds"`
	// Error is the most by which it can be off, either way.
	Error float64 `json:"error"`
}

// Simulated is how many agents were simulated, and the part of them that was back by
// the exact time. It comes near to Each.
type Simulated struct {
	Agents int     `json:"agents"`
	Back   float64 `json:"back"`
}

// Mistakes tells all that is wrong with a question. Each begins with the name of its
// field.
func (q Question) Mistakes() []error {
	var bad []error
	add := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	switch {
	case q.Replicas == 1:
		add("replicas 1: there is nothing to wait for: with one replica the first try reaches it; give 2 or more, the new one counted")
	case q.Replicas < 1:
		add("replicas %d: give how many the balancer picks from, the new one counted: 2 or more", q.Replicas)
	case q.Replicas > maxReplicas:
		add("replicas %d: give %d or fewer", q.Replicas, maxReplicas)
	}
	switch p := q.Probability; {
	case p > 1 && p < 100:
		add("probability %g: it is more than 0 and less than 1; for %g%% give %g", p, p, p/100)
	case !(p > 0 && p < 1): // NaN, too
		add("probability %g: it is more than 0 and less than 1, as no wait makes sure of it; give 0.9, say", p)
	}
	if q.Agents < 1 {
		add("agents %d: give how many have to be back: 1 or more", q.Agents)
	}
	switch {
	case q.Missing < 1:
		add("missing %d: give how many tunnels an agent has lost: 1 or more", q.Missing)
	case q.Replicas > 1 && q.Missing > q.Replicas:
		add("missing %d: an agent has one tunnel to each replica, and there are %d; give 1 to %d", q.Missing, q.Replicas, q.Replicas)
	}
	if len(bad) > 0 {
		return bad
	}
	if q.tail() < leastTail {
		add("probability %g: each of %d agents would have to be back with less than %g left to chance, and that is more exact than is computed; give a lower probability, or fewer agents", q.Probability, q.Agents, leastTail)
	} else if _, ok := q.grid(); !ok {
		add("replicas %d: with this probability the time could be up to %.0f s, and to compute it is more work than is done here; give fewer replicas, missing tunnels or agents, or a lower probability", q.Replicas, q.horizon())
	}
	return bad
}

// tail is what each agent may leave to chance: 1 - P^(1/a). As a difference of two
// numbers near 1 it would lose its digits.
func (q Question) tail() float64 {
	if q.Agents == 1 {
		return 1 - q.Probability
	}
	return -math.Expm1(math.Log(q.Probability) / float64(q.Agents))
}

// retries is the thread's Y: Y + 1 tries have all failed with probability tail, where
// each fails with (N-j)/N, j being the tunnels that are missing.
func (q Question) retries(tail float64, j int) float64 {
	if j == q.Replicas {
		return 0
	}
	return math.Log(tail)/math.Log(float64(q.Replicas-j)/float64(q.Replicas)) - 1
}

// longest is how long n retries wait at most: 4 + 8 + ... + 4n.
func longest(n float64) float64 { return 2*n*n + 2*n }

// whole is the least number of retries that is y or more. What is a whole number on
// paper (0.5 with 2 replicas: 0) may be a little more as a float64.
func whole(y float64) float64 { return max(0, math.Ceil(y-1e-9)) }

func (q Question) table() Table {
	y := q.retries(q.tail(), 1)
	return Table{Retries: y, From: 2*y*y + y, To: 4*y*y + 2*y}
}

// horizon is a time that the answer is surely below, and the thread's are too. An
// agent is late only if it needs too many tries in one of its stages: each stage may
// take its part of what is left to chance.
func (q Question) horizon() float64 {
	sum := 0.0
	for j := 1; j <= q.Missing; j++ {
		sum += longest(whole(q.retries(q.tail()/float64(q.Missing), j)))
	}
	return max(sum, 1.05*q.table().To, longest(2))
}

// Of answers a question.
func Of(q Question) (*Answer, error) {
	if err := errors.Join(q.Mistakes()...); err != nil {
		return nil, err
	}
	tail := q.tail()
	perTwo, _ := q.grid()
	a := &Answer{Question: q, Each: 1 - tail, Table: q.table(), Time: q.distribution(perTwo)}
	a.Formula = longest(a.Table.Retries)
	n := whole(a.Table.Retries)
	a.Bound = Bound{Retries: int(n), Seconds: longest(n)}
	a.Exact.Seconds = a.Time.Quantile(tail)
	if a.Exact.Seconds > 0 { // at once is exact
		a.Exact.Error = a.Time.Error(a.Exact.Seconds)
	}
	a.MinReadySeconds = int(math.Ceil(a.Exact.Seconds + a.Exact.Error))
	return a, nil
}

// Late is the probability that not all agents are back by then.
func (a *Answer) Late(seconds float64) float64 {
	return -math.Expm1(float64(a.Agents) * math.Log1p(-a.Time.Late(seconds)))
}
