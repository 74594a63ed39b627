// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run TestFindings . -args -update

var update = flag.Bool("update", false, "write the numbers of the findings anew")

const findings = "../../docs/findings/pacing.md"

// The tables of the findings are made here, and the numbers in its sentences checked.
func TestFindings(t *testing.T) {
	b, err := os.ReadFile(findings)
	if err != nil {
		t.Fatal(err)
	}
	old := string(b)
	page, err := filled(old, map[string]string{"three": three(t), "rows": rows(t), "fifteen": fifteen(t), "more": more(t)})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(findings, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(old, page); diff != "" {
		t.Errorf("%s is out of date: `make generate`\n%s", findings, diff)
	}
	words := strings.Join(strings.Fields(old), " ")
	for _, want := range said(t) {
		if !strings.Contains(words, want) {
			t.Errorf("%s does not say %q", findings, want)
		}
	}
}

// filled puts each block between its two marks.
func filled(page string, blocks map[string]string) (string, error) {
	const end = "<!-- end -->"
	for name, block := range blocks {
		begin := "<!-- made by `go generate ./reports/pacing`: " + name + " -->\n"
		before, rest, ok := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return "", fmt.Errorf("there are no two marks of %q", name)
		}
		page = before + begin + "\n" + block + "\n" + end + after
	}
	return page, nil
}

func TestFilled(t *testing.T) {
	const page = "a\n<!-- made by `go generate ./reports/pacing`: x -->\nold\n<!-- end -->\nb\n"
	got, err := filled(page, map[string]string{"x": "new\n"})
	if err != nil || strings.Contains(got, "old") || !strings.Contains(got, "\nnew\n") || !strings.HasSuffix(got, "\nb\n") {
		t.Errorf("%q, %v", got, err)
	}
	if again, err := filled(got, map[string]string{"x": "new\n"}); err != nil || again != got {
		t.Errorf("%q, %v", again, err)
	}
	if _, err := filled(page, map[string]string{"y": ""}); err == nil {
		t.Error("a mark that is not there")
	}
}

// said is what the sentences say, from today's numbers.
func said(t *testing.T) []string {
	a, surge := answer(t, of(3, 0.9)), answer(t, of(4, 0.9))
	y, n := a.Table.Retries, a.Bound.Retries
	short := 0
	for _, p := range probabilities {
		for _, n := range pods {
			if a := answer(t, of(n, p)); a.Formula < a.Exact.Seconds {
				short++
			}
		}
	}
	return []string{
		fmt.Sprintf("**Trust the exact time: %s s, so `minReadySeconds: %d`.**", seconds(a.Exact.Seconds), a.MinReadySeconds),
		fmt.Sprintf("The table's %s to %s s is not", seconds(a.Table.From), seconds(a.Table.To)),
		fmt.Sprintf("Y = %s retries take. That is Y²+Y = %s s to 2Y²+2Y = %s s.", seconds(y), seconds(y*y+y), seconds(a.Formula)),
		fmt.Sprintf("%s of the agents are back at its lower end and %s at its upper one", percent(a.Late(a.Table.From)), percent(a.Late(a.Table.To))),
		fmt.Sprintf("The formula's %s s is right for what it is", seconds(a.Formula)),
		fmt.Sprintf("and %s s too long for the question", seconds(a.Formula-a.Exact.Seconds)),
		fmt.Sprintf("nobody makes %s of a retry. %d retries will do for %s of the agents, %d for %s, and %d can take %.0f s", seconds(y-float64(n-1)), n-1, percent(a.fails(n-1)), n, percent(a.fails(n)), n, a.Bound.Seconds),
		fmt.Sprintf("In %d of the thread's 20 rows the formula is too short", short),
		fmt.Sprintf("it is %s s more", seconds(a.Table.To-a.Formula)),
		fmt.Sprintf("more exactly %s.", percent(a.Late(15))),
		fmt.Sprintf("it is %s s, twice as long", seconds(surge.Exact.Seconds)),
		fmt.Sprintf("with 9 replicas and 99%% it is %.0f minutes", answer(t, of(9, 0.99)).Exact.Seconds/60),
	}
}

// three is what the command prints first for three replicas.
func three(t *testing.T) string {
	head, _, _ := strings.Cut(written(t, answer(t, of(3, 0.9))), "\nWhich to trust")
	return "```\n$ lastcall pacing --replicas 3 --probability 0.9\n" + head + "```\n"
}

func rows(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| P | N | the table | the formula | exact | by the formula | formula - exact |\n|---|---|---:|---:|---:|---:|---:|\n")
	for _, p := range probabilities {
		for _, n := range pods {
			a := answer(t, of(n, p))
			fmt.Fprintf(&b, "| %g | %d | %s to %s | %s | %s | %s | %+.1f |\n", p, n, seconds(a.Table.From), seconds(a.Table.To),
				seconds(a.Formula), exact(t, a), percent(a.Late(a.Formula)), a.Formula-a.Exact.Seconds)
		}
	}
	return b.String()
}

// exact has as many decimals as are known.
func exact(t *testing.T, a *Answer) string {
	switch e := a.Exact; {
	case e.Error <= 0.005:
		return seconds(e.Seconds)
	case e.Error <= 0.1:
		return fmt.Sprintf("%.1f", e.Seconds)
	}
	t.Errorf("%+v: %s: the findings say that it is off by 0.1 s at the most", a.Question, a.Exact)
	return ""
}

func fifteen(t *testing.T) string {
	head, line := "| N |", "| back by 15 s |"
	for _, n := range []int{2, 3, 4, 5, 7, 9} {
		head += fmt.Sprintf(" %d |", n)
		line += fmt.Sprintf(" %s |", percent(answer(t, of(n, 0.9)).Late(15)))
	}
	return head + "\n|---" + strings.Repeat("|---:", 6) + "|\n" + line + "\n"
}

func more(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| P | N | agents | missing | exact | minReadySeconds |\n|---|---|---:|---:|---:|---:|\n")
	for _, q := range []Question{of(3, 0.9), of(4, 0.9), {3, 0.9, 10, 1}, {3, 0.9, 200, 1}, {3, 0.9, 1, 2}, {3, 0.9, 1, 3}, {4, 0.9, 1, 4}, {4, 0.9, 200, 1}} {
		a := answer(t, q)
		fmt.Fprintf(&b, "| %g | %d | %d | %d | %s | %d |\n", q.Probability, q.Replicas, q.Agents, q.Missing, exact(t, a), a.MinReadySeconds)
	}
	return b.String()
}
