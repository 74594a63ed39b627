// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"fmt"
	"io"
	"math"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/reports/text"
)

// WriteYAML writes the answer for a program.
func WriteYAML(w io.Writer, a *Answer) error {
	b, err := sigsyaml.Marshal(a)
	if err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	_, err = w.Write(b)
	return err
}

// String is the row as the thread has it, for a number of pods and a probability.
func (t Table) String() string {
	return fmt.Sprintf("%s retries, between %s and %s seconds", seconds(t.Retries), seconds(t.From), seconds(t.To))
}

// seconds has two decimals, and no minus in front of nothing.
func seconds(s float64) string {
	if text := fmt.Sprintf("%.2f", s); text != "-0.00" {
		return text
	}
	return "0.00"
}

// percent is what is not left to chance, with so many digits that it never rounds
// up to 100%.
func percent(late float64) string {
	digits := 1
	for scale := 100 * late; scale < 0.95 && digits < 9; scale *= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f%%", digits, 100*(1-late))
}

// Time is the exact time and its error, which is rounded up.
func (e Exact) String() string {
	if e.Error == 0 {
		return seconds(e.Seconds)
	}
	return fmt.Sprintf("%.2f ± %.2f", e.Seconds, math.Ceil(e.Error*100)/100)
}

// WriteText writes the three beside each other, what a simulation saw, if there was
// one, and where they differ.
func WriteText(w io.Writer, a *Answer) error {
	var b strings.Builder
	b.WriteString(text.Wrap("", a.question()) + "\n")
	row := func(name, time, by, more string) {
		line := fmt.Sprintf("  %-24s%-24s%-20s%s", name, time, by, more)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	t := a.Table
	row("", "seconds", "back by then", "")
	row("the thread's table", seconds(t.From)+" to "+seconds(t.To), percent(a.Late(t.From))+" to "+percent(a.Late(t.To)), "Y = "+seconds(t.Retries)+" retries")
	row("the thread's formula", seconds(a.Formula), percent(a.Late(a.Formula)), "")
	row("the exact distribution", a.Exact.String(), percent(a.Late(a.Exact.Seconds)), "")
	fmt.Fprintf(&b, "\nminReadySeconds: %d\n", a.MinReadySeconds)
	if a.Simulated != nil {
		b.WriteString("\n" + text.Wrap("Simulated: ", a.simulated()))
	}
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"Which to trust", a.trust()},
		{"Where they differ", a.differ()},
		{"What minReadySeconds does", a.advice()},
	} {
		b.WriteString("\n" + part.title + "\n")
		for _, line := range part.lines {
			b.WriteString(text.Wrap("  - ", line))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (a *Answer) question() string {
	who, each, has, tunnels, them := "An agent", "", "it has", "its tunnel", "it"
	if a.Agents > 1 {
		who, each, has = fmt.Sprintf("%d agents", a.Agents), ", each", "all have"
	}
	if a.Missing > 1 {
		tunnels, them = "its tunnels", "them"
	}
	return fmt.Sprintf("%s%s without %s to %d of %d replicas behind one balancer: how long until %s %s, with probability %g?",
		who, each, tunnels, a.Missing, a.Replicas, has, them, a.Probability)
}

func (a *Answer) simulated() string {
	back := a.Time.Late(a.Exact.Seconds)
	// The distance that chance alone stays within 19 times of 20.
	chance := 1.96 * math.Sqrt(back*(1-back)/float64(a.Simulated.Agents))
	return fmt.Sprintf("%.3f%% of %d agents were back by the exact time. It should be %.3f%%, and by chance alone it is within %.3f points of that 19 times of 20.",
		100*a.Simulated.Back, a.Simulated.Agents, 100*(1-back), 100*chance)
}

// luck is whether anything but the first try is needed at all.
func (a *Answer) luck() bool { return a.Table.Retries > 0 }

func (a *Answer) trust() []string {
	out := []string{"The exact one. It alone weighs both chances, how many tries fail and how long each wait is. It is as true as the model: each try gets any of the replicas, whatever came before, and the agent counts from 0 when the replica is ready. Not so with a balancer that takes turns or that keeps a client where it was, and for an agent that was trying already: its next waits are longer."}
	if a.Missing == 1 && a.luck() {
		out = append(out, fmt.Sprintf("To rely on nothing about the waits, take the bound: %s of the agents need no more than %s, which are %.0f s at the longest.",
			percent(a.fails(a.Bound.Retries)), count(a.Bound.Retries), a.Bound.Seconds))
	}
	return out
}

func count(retries int) string {
	if retries == 1 {
		return "1 retry"
	}
	return fmt.Sprintf("%d retries", retries)
}

// fails is the probability that so many retries, and the try before them, are not
// enough for one tunnel.
func (a *Answer) fails(retries int) float64 {
	return math.Pow(1-1/float64(a.Replicas), float64(retries+1))
}

func (a *Answer) differ() []string {
	var out []string
	if a.Agents > 1 {
		out = append(out, fmt.Sprintf("All of %d agents are back with %g when each is with %g^(1/%d) = %s, if their luck is apart. The thread has the same, exp(ln(P)/a), and struck it out. Table and formula are printed for it.",
			a.Agents, a.Probability, a.Probability, a.Agents, percent(1-a.Each)))
	}
	if a.Missing > 1 {
		out = append(out, "Table and formula are about one missing tunnel, and printed for one: the thread has nothing for more. The exact time is that of all stages, one after the other.")
	}
	y := a.Table.Retries
	switch {
	case y < 0:
		return append(out, "Y is below 0: the first try, without a wait, is enough for as many as were asked for. The thread's numbers mean nothing here.")
	case y == 0:
		return append(out, "Y is 0: for one tunnel the first try, without a wait, is enough for as many as were asked for.")
	}
	low := y*y + y
	out = append(out,
		fmt.Sprintf("The table is not what it says. Y retries wait for 2+4+...+2Y = Y²+Y = %s s at the least and for 4+8+...+4Y = 2Y²+2Y = %s s at the most. The table has 2Y²+Y, which is 1+2+...+2Y, and twice that: it begins only Y seconds before it should end. And it is no confidence interval: it says how long Y retries can take, and not how many agents take as long.",
			seconds(low), seconds(a.Formula)))
	formula := "The formula is the longest that Y retries can take. With a whole Y that is a bound, which is never too short."
	if n := a.Bound.Retries; float64(n)-y > 1e-9 {
		formula += fmt.Sprintf(" But nobody makes a part of a retry: %s will do for %s of the agents and take %.0f s at the longest, %d for %s and %.0f s.",
			count(n-1), percent(a.fails(n-1)), longest(float64(n-1)), n, percent(a.fails(n)), a.Bound.Seconds)
	}
	if a.Missing == 1 {
		switch by := a.Formula - a.Exact.Seconds; {
		case by > a.Exact.Error:
			formula += fmt.Sprintf(" Here it is %s s longer than it has to be.", seconds(by))
		case by < -a.Exact.Error:
			formula += fmt.Sprintf(" Here it is %s s too short.", seconds(-by))
		}
	}
	return append(out, formula)
}

func (a *Answer) advice() []string {
	out := []string{
		"It counts from the moment at which the pod is Ready. From then on the pod is in its EndpointSlice and gets traffic, of agents and of users, while the rollout waits: the old pod goes when the new one is available.",
		fmt.Sprintf("--replicas is how many the balancer can pick meanwhile. A rollout that makes the new pod before it takes an old one (maxUnavailable 0; by default with 1 to 3 replicas) has one more: for a Deployment of %d ask for --replicas %d.", a.Replicas, a.Replicas+1),
	}
	if a.MinReadySeconds >= 600 {
		out = append(out, fmt.Sprintf("progressDeadlineSeconds has to be more than it, and is 600 by default: set it above %d.", a.MinReadySeconds))
	}
	return out
}
