// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"bytes"
	"fmt"
	"image/png"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	sigsyaml "sigs.k8s.io/yaml"
)

// thread is the table of the discussion, to the letter.
const thread = `Connection probability 0.5, 2 Pods -> 0.00 retries, between 0.00 and 0.00 seconds
Connection probability 0.5, 3 Pods -> 0.71 retries, between 1.72 and 3.43 seconds
Connection probability 0.5, 5 Pods -> 2.11 retries, between 10.98 and 21.96 seconds
Connection probability 0.5, 7 Pods -> 3.50 retries, between 27.95 and 55.90 seconds
Connection probability 0.5, 9 Pods -> 4.88 retries, between 52.61 and 105.22 seconds
Connection probability 0.7, 2 Pods -> 0.74 retries, between 1.82 and 3.65 seconds
Connection probability 0.7, 3 Pods -> 1.97 retries, between 9.73 and 19.45 seconds
Connection probability 0.7, 5 Pods -> 4.40 retries, between 43.04 and 86.07 seconds
Connection probability 0.7, 7 Pods -> 6.81 retries, between 99.57 and 199.14 seconds
Connection probability 0.7, 9 Pods -> 9.22 retries, between 179.31 and 358.62 seconds
Connection probability 0.9, 2 Pods -> 2.32 retries, between 13.10 and 26.21 seconds
Connection probability 0.9, 3 Pods -> 4.68 retries, between 48.46 and 96.93 seconds
Connection probability 0.9, 5 Pods -> 9.32 retries, between 183.00 and 366.00 seconds
Connection probability 0.9, 7 Pods -> 13.94 retries, between 402.43 and 804.86 seconds
Connection probability 0.9, 9 Pods -> 18.55 retries, between 706.71 and 1413.42 seconds
Connection probability 0.99, 2 Pods -> 5.64 retries, between 69.35 and 138.70 seconds
Connection probability 0.99, 3 Pods -> 10.36 retries, between 224.92 and 449.85 seconds
Connection probability 0.99, 5 Pods -> 19.64 retries, between 790.92 and 1581.83 seconds
Connection probability 0.99, 7 Pods -> 28.87 retries, between 1696.34 and 3392.69 seconds
Connection probability 0.99, 9 Pods -> 38.10 retries, between 2941.13 and 5882.26 seconds
`

var (
	pods          = []int{2, 3, 5, 7, 9}
	probabilities = []float64{0.5, 0.7, 0.9, 0.99}
)

// of is the question of one agent with one missing tunnel.
func of(replicas int, p float64) Question {
	return Question{Replicas: replicas, Probability: p, Agents: 1, Missing: 1}
}

func answer(t *testing.T, q Question) *Answer {
	t.Helper()
	a, err := Of(q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheThreadsTable(t *testing.T) {
	var got strings.Builder
	for _, p := range probabilities {
		for _, n := range pods {
			fmt.Fprintf(&got, "Connection probability %g, %d Pods -> %s\n", p, n, of(n, p).table())
		}
	}
	if got.String() != thread {
		t.Errorf("got\n%s", got.String())
	}
}

func TestTheThreadsFormula(t *testing.T) {
	for _, p := range probabilities {
		for _, n := range pods {
			y := math.Log(1-p) / math.Log((float64(n)-1)/float64(n))
			want := 2 * (y*y - y)
			if got := answer(t, of(n, p)).Formula; math.Abs(got-want) > 1e-9*(1+want) {
				t.Errorf("%d replicas, %g: %g, want %g", n, p, got, want)
			}
		}
	}
}

// What can be worked out on paper: with two tries or three the time is a uniform, or
// the sum of two.
func TestExactOnPaper(t *testing.T) {
	for _, tc := range []struct {
		q    Question
		want float64
	}{
		{of(2, 0.5), 0},
		{of(2, 0.3), 0},
		{of(3, 1.0/3), 0},
		{of(2, 0.7), 3.6}, // 0.5 at once; 0.2 of the 0.25 between 2 s and 4 s
		{of(2, 0.75), 4},  // and not 6, when the next ones come
		{of(2, 0.7500001), 6},
		{of(3, 0.7), 12 - math.Sqrt(0.4)}, // 0.975 of the sum of 2-4 s and 4-8 s
		{Question{Replicas: 2, Probability: 0.5, Agents: 1, Missing: 2}, 0},     // the first of two always fits
		{Question{Replicas: 2, Probability: 0.7, Agents: 1, Missing: 2}, 3.6},   // and then it is one of two
		{Question{Replicas: 2, Probability: 0.49, Agents: 2, Missing: 1}, 3.6},  // 0.7 for each
		{Question{Replicas: 3, Probability: 0.22, Agents: 1, Missing: 2}, 0},    // 2/3 * 1/3 = 0.222
		{Question{Replicas: 3, Probability: 0.2223, Agents: 1, Missing: 2}, 2},  // then nothing until 2 s
		{Question{Replicas: 3, Probability: 1.0 / 3, Agents: 1, Missing: 2}, 3}, // 2/9 at once, 2/9 between 2 s and 4 s
	} {
		got := answer(t, tc.q).Exact
		if slack := got.Error + 0.01; math.Abs(got.Seconds-tc.want) > slack {
			t.Errorf("%+v: %s, want %g", tc.q, got, tc.want)
		}
	}
}

// The bound of the error has to hold on any grid, and to say something.
func TestErrorBound(t *testing.T) {
	for _, q := range []Question{of(3, 0.9), of(9, 0.7), {Replicas: 4, Probability: 0.9, Agents: 1, Missing: 4}} {
		perTwo, ok := q.grid()
		if !ok {
			t.Fatal(q)
		}
		fine := q.distribution(perTwo)
		for _, tail := range []float64{0.5, q.tail()} {
			truth := fine.Quantile(tail)
			for _, steps := range []int{1, 2, 7, 50} {
				d := q.distribution(steps)
				got := d.Quantile(tail)
				if off, may := math.Abs(got-truth), d.Error(got)+fine.Error(truth); off > may {
					t.Errorf("%+v, %d steps, %g: %g s off, and it says %g", q, steps, tail, off, may)
				}
			}
			if fine.Error(truth) > 0.01 {
				t.Errorf("%+v: the error is %g s", q, fine.Error(truth))
			}
		}
	}
}

// A million agents go the way try by try. By the inequality of Dvoretzky, Kiefer,
// Wolfowitz and Massart the part of them that is back is nowhere further than this from
// the truth, but for one seed in a million; and at the exact time it is within
// 4.9 standard errors, as rarely.
func TestSimulation(t *testing.T) {
	const agents, chance = 1_000_000, 1e-6
	far := math.Sqrt(math.Log(2/chance) / (2 * agents))
	for _, q := range []Question{
		of(3, 0.9), of(2, 0.99),
		{Replicas: 4, Probability: 0.9, Agents: 1, Missing: 4},
		{Replicas: 5, Probability: 0.9, Agents: 1, Missing: 2},
		{Replicas: 3, Probability: 0.9, Agents: 200, Missing: 1},
	} {
		a := answer(t, q)
		seen, err := Simulate(q, agents, 1)
		if err != nil {
			t.Fatal(err)
		}
		// Where something is rounded, the two may be that much apart in time.
		worst := func(d *Distribution) float64 {
			off := 0.0
			for i, s := range seen {
				if s > q.horizon() {
					break
				}
				e := d.Error(s)
				off = max(off, float64(i)/agents-(1-d.Late(s+e)), 1-d.Late(s-e)-float64(i+1)/agents)
			}
			return off
		}
		if off := worst(a.Time); off > far {
			t.Errorf("%+v: %g apart, more than %g", q, off, far)
		}
		// It tells another distribution from it: that of one replica more.
		other := q
		other.Replicas++
		if off := worst(answer(t, other).Time); off < 2*far {
			t.Errorf("%+v: the simulation fits %d replicas too: %g apart", q, other.Replicas, off)
		}
		off := math.Abs(seen.Back(a.Exact.Seconds) - a.Each)
		if may := 4.9 * math.Sqrt(a.Each*(1-a.Each)/agents); off > may {
			t.Errorf("%+v: %g of the agents were back, and not %g", q, seen.Back(a.Exact.Seconds), a.Each)
		}
	}
	// Nor would it have let the thread's numbers pass for the exact time at N = 3.
	seen, err := Simulate(of(3, 0.9), agents, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := answer(t, of(3, 0.9))
	for name, s := range map[string]float64{"formula": a.Formula, "table, from": a.Table.From, "table, to": a.Table.To, "Y²+Y": a.Formula / 2} {
		if off, may := math.Abs(seen.Back(s)-0.9), 4.9*math.Sqrt(0.9*0.1/agents); off < may {
			t.Errorf("%s: %g of the agents are back by %g s, which passes for 0.9", name, seen.Back(s), s)
		}
	}
}

func TestSimulationRepeats(t *testing.T) {
	q := of(3, 0.9)
	back := func(seed uint64) float64 {
		s, err := Simulate(q, 1000, seed)
		if err != nil {
			t.Fatal(err)
		}
		return s[500]
	}
	if back(1) != back(1) || back(1) == back(2) {
		t.Error("the seed decides")
	}
	for _, n := range []int{-1, 0, 20_000_000} {
		if _, err := Simulate(q, n, 1); err == nil || !strings.Contains(err.Error(), "give 1 to 10000000 agents") {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := Simulate(of(1, 0.9), 10, 1); err == nil {
		t.Error("one replica")
	}
}

// The thread's own example, with four backends.
func TestTheThreadsExample(t *testing.T) {
	const a, b, c, d = 0, 1, 2, 3
	const none = 1e-9
	toC := []Try{{0, c}}
	toA := []Try{{0, c}, {3.3, a}}
	toB := []Try{{0, c}, {2.4, c}, {7.2, b}}
	toD := []Try{{0, d}}
	all := append(append(append(toC, toA...), toB...), toD...)
	for n, want := range map[int]struct {
		waited float64
		lacks  int
	}{1: {0, 3}, 3: {3.3, 2}, 6: {3.3 + 9.6, 1}, 7: {12.9, 0}} {
		waited, lacks, err := Replay(4, 4, all[:n])
		if err != nil || math.Abs(waited-want.waited) > none || lacks != want.lacks {
			t.Errorf("%d tries: %g s, %d missing, %v; want %+v", n, waited, lacks, err, want)
		}
	}
	// The thread says that the third one was A, when A was there already. By its own
	// rules that is a failure: the agent would have waited for 6 to 12 s and tried again.
	asWritten := append([]Try{}, all...)
	asWritten[5].Replica = a
	waited, lacks, err := Replay(4, 4, asWritten[:6])
	if err != nil || lacks != 2 {
		t.Errorf("%g s, %d missing, %v", waited, lacks, err)
	}
	if _, _, err := Replay(4, 4, asWritten); err == nil || !strings.Contains(err.Error(), "the 7. of the tries: before try 3 it waits for 6 to 12 s, not for 0") {
		t.Errorf("%v", err)
	}
}

func TestReplayRefuses(t *testing.T) {
	for want, tc := range map[string]struct {
		missing int
		tries   []Try
	}{
		"before try 0 it waits for 0 to 0 s":   {1, []Try{{1, 0}}},
		"before try 1 it waits for 2 to 4 s":   {1, []Try{{0, 1}, {1.9, 0}}},
		"before try 2 it waits for 4 to 8 s":   {1, []Try{{0, 1}, {2, 1}, {8.1, 0}}},
		"not for NaN":                          {1, []Try{{0, 1}, {math.NaN(), 1}}},
		"there is no replica 3 among 3":        {1, []Try{{0, 3}}},
		"there is no replica -1":               {1, []Try{{0, -1}}},
		"the 2. of the tries: it has all":      {1, []Try{{0, 0}, {0, 0}}},
		"4 tunnels can't be missing to 3":      {4, nil},
		"-1 tunnels can't be missing to 3 rep": {-1, nil},
	} {
		if _, _, err := Replay(3, tc.missing, tc.tries); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", tc.tries, err, want)
		}
	}
}

// More of anything that makes it harder never makes it shorter, and no agent is ever
// less late than before.
func TestMonotone(t *testing.T) {
	least := Question{Replicas: 3, Probability: 0.6, Agents: 1, Missing: 1}
	for name, more := range map[string]func(*Question){
		"replicas":    func(q *Question) { q.Replicas++ },
		"probability": func(q *Question) { q.Probability += 0.03 },
		"agents":      func(q *Question) { q.Agents *= 3 },
		"missing":     func(q *Question) { q.Missing++; q.Replicas = 12 },
	} {
		q := least
		before := answer(t, q)
		for range 4 {
			more(&q)
			a := answer(t, q)
			if a.Exact.Seconds+a.Exact.Error < before.Exact.Seconds-before.Exact.Error || a.MinReadySeconds < before.MinReadySeconds {
				t.Errorf("%s: %+v takes %s, after %s", name, q, a.Exact, before.Exact)
			}
			before = a
		}
		if before.Exact.Seconds <= answer(t, least).Exact.Seconds {
			t.Errorf("%s changes nothing", name)
		}
	}
}

func FuzzOf(f *testing.F) {
	for _, q := range []Question{of(3, 0.9), of(2, 0.5), of(1, 2), of(3, math.NaN()), {4, 0.9, 200, 4}, {9, 1e-300, 7, 3}, {5, math.Nextafter(1, 0), 1, 1}} {
		f.Add(q.Replicas, q.Probability, q.Agents, q.Missing)
	}
	f.Fuzz(func(t *testing.T, replicas int, p float64, agents, missing int) {
		q := Question{replicas, p, agents, missing}
		if len(q.Mistakes()) > 0 {
			if _, err := Of(q); err == nil {
				t.Fatal("what is wrong was answered")
			}
			return
		}
		if q.horizon() > 1000 {
			t.Skip("that takes too long here")
		}
		a := answer(t, q)
		s := a.Exact.Seconds
		if !(s >= 0 && s <= q.horizon()) || float64(a.MinReadySeconds) < s {
			t.Fatalf("%+v", a)
		}
		if missing == 1 && s-a.Exact.Error > a.Bound.Seconds {
			t.Errorf("%s s, and %d retries take %g s at the most", a.Exact, a.Bound.Retries, a.Bound.Seconds)
		}
		if late := a.Time.Late(s + 2*a.Time.step); late > 1.001*q.tail() {
			t.Errorf("%g are late, and %g may be", late, q.tail())
		}
		for i := 1; i < len(a.Time.late); i++ {
			if a.Time.late[i] > a.Time.late[i-1] || a.Time.late[i] < 0 {
				t.Fatalf("%+v: it grows at step %d", q, i)
			}
		}
	})
}

func TestMistakes(t *testing.T) {
	for want, q := range map[string]Question{
		"replicas 1: there is nothing to wait for":            of(1, 0.9),
		"replicas 0: give how many":                           of(0, 0.9),
		"replicas -4: give how many":                          of(-4, 0.9),
		"replicas 10001: give 10000 or fewer":                 of(10001, 0.9),
		"replicas 9000: with this probability the time could": of(9000, 0.9),
		"replicas 50: with this probability the time could":   {50, 0.9, 1, 50},
		"probability NaN: it is more than 0":                  of(3, math.NaN()),
		"probability +Inf: it is more than 0":                 of(3, math.Inf(1)),
		"probability 0: it is more than 0":                    of(3, 0),
		"probability 1: it is more than 0":                    of(3, 1),
		"probability -0.5: it is more than 0":                 of(3, -0.5),
		"for 90% give 0.9":                                    of(3, 90),
		"agents 0: give how many":                             {3, 0.9, 0, 1},
		"missing 0: give how many":                            {3, 0.9, 1, 0},
		"missing 4: an agent has one tunnel to each":          {3, 0.9, 1, 4},
		"each of 1000000000 agents":                           {3, 0.9, 1_000_000_000, 1},
		"each of 1 agents would have to be back":              of(3, math.Nextafter(1, 0)),
	} {
		bad := q.Mistakes()
		if len(bad) != 1 || !strings.Contains(bad[0].Error(), want) {
			t.Errorf("%+v: %v, want %s", q, bad, want)
		}
		if _, err := Of(q); err == nil {
			t.Errorf("%+v was answered", q)
		}
	}
	if bad := (Question{}).Mistakes(); len(bad) != 4 {
		t.Errorf("not all at once: %v", bad)
	}
}

func written(t *testing.T, a *Answer) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteText(&b, a); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	for _, tc := range []struct {
		q    Question
		want []string
		not  string
	}{
		{of(3, 0.9), []string{"48.46 to 96.93", "53.14", "47.64 ± 0.01", "minReadySeconds: 48", "Y²+Y = 26.57 s", "5.50 s longer than it has to be", "--replicas 4"}, "progressDeadline"},
		{of(2, 0.7), []string{"1.04 s too short", "1 retry,", "0 retries"}, "longer than it has"},
		{of(2, 0.5), []string{"Y is 0", "minReadySeconds: 0"}, "The table is not"},
		{of(3, 0.2), []string{"Y is below 0", "minReadySeconds: 0"}, "The table is not"},
		{of(3, 0.3333), []string{"Y is below 0", "0.00 to 0.00"}, "-0.00"},
		{of(9, 0.99), []string{"progressDeadlineSeconds"}, "has all"},
		{Question{3, 0.9, 200, 1}, []string{"200 agents, each without", "0.9^(1/200) = 99.947%", "struck it out"}, "one missing tunnel"},
		{Question{4, 0.9, 1, 4}, []string{"its tunnels to 4 of 4", "about one missing tunnel"}, "Here it is"},
	} {
		got := written(t, answer(t, tc.q))
		for _, want := range tc.want {
			if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
				t.Errorf("%+v: no %q in\n%s", tc.q, want, got)
			}
		}
		if strings.Contains(got, tc.not) {
			t.Errorf("%+v: %q in\n%s", tc.q, tc.not, got)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 || strings.HasSuffix(line, " \n") {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
	for late, want := range map[float64]string{0.5: "50.0%", 0.1: "90.0%", 0.0096: "99.0%", 0.0094: "99.06%", 0.00053: "99.947%", 2e-9: "99.99999980%"} {
		if got := percent(late); got != want {
			t.Errorf("%g: %s, want %s", late, got, want)
		}
	}
}

func TestYAML(t *testing.T) {
	var b bytes.Buffer
	a := answer(t, of(3, 0.9))
	a.Simulated = &Simulated{Agents: 10, Back: 0.8}
	if err := WriteYAML(&b, a); err != nil {
		t.Fatal(err)
	}
	var got Answer
	if err := sigsyaml.UnmarshalStrict(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.MinReadySeconds != 48 || got.Replicas != 3 || got.Table != a.Table || got.Exact != a.Exact || *got.Simulated != *a.Simulated {
		t.Errorf("%s", b.String())
	}
}

func TestWritePNG(t *testing.T) {
	for _, q := range []Question{of(3, 0.9), of(2, 0.5), of(3, 0.2), {3, 0.9, 5, 2}} {
		var b bytes.Buffer
		if err := WritePNG(&b, answer(t, q)); err != nil {
			t.Fatal(err)
		}
		if path := os.Getenv("LASTCALL_PICTURE"); path != "" { // to look at it
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[[3]uint32]int{}
		for y := range img.Bounds().Max.Y {
			for x := range img.Bounds().Max.X {
				r, g, bl, _ := img.At(x, y).RGBA()
				seen[[3]uint32{r >> 8, g >> 8, bl >> 8}]++
			}
		}
		for name, c := range map[string][3]uint32{"the distribution": {0x2c, 0x6f, 0xb0}, "the table": {0xfb, 0xe3, 0xb2}, "the time asked for": {0xd6, 0x1f, 0x1f}} {
			want := name != "the table" || q.table().Retries >= 0
			if seen[c] > 0 != want {
				t.Errorf("%+v: %s: %d pixels", q, name, seen[c])
			}
		}
	}
}
