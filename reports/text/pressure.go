// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Pressure tells of closed-loop load in sentences: what it saw, how long it took, and
// what the backends say of it.
func Pressure(x *v1alpha1.Pressure) []string {
	if x.Error != "" {
		return []string{fmt.Sprintf("%s: no summary: %s", x.Name, x.Error)}
	}
	what := x.Name
	if x.Conns > 0 {
		what += fmt.Sprintf(" (%s, %s requests/s)", count(x.Conns, "connection"), thousands(int(x.QPS)))
	}
	failed := fmt.Sprintf("%s failed", thousands(x.Errors))
	if kinds := pressureErrors(x); len(kinds) > 0 {
		failed += " (" + strings.Join(kinds, ", ") + ")"
	}
	latencies := fmt.Sprintf("p50 %s, p99 %s", ms(x.P50), ms(x.P99))
	if x.Max > 0 {
		latencies = fmt.Sprintf("p50 %s, p90 %s, p99 %s, longest %s", ms(x.P50), ms(x.P90), ms(x.P99), ms(x.Max))
	}
	out := []string{fmt.Sprintf("%s: %s, %s; %s", what, count(x.Requests, "request"), failed, latencies)}
	if x.Lowered != "" {
		out = append(out, "rate: "+x.Lowered)
	}
	if x.Stopped != "" {
		out = append(out, "ended early: "+x.Stopped)
	}
	if h := Histogram(x.Histogram); h != "" {
		out = append(out, "took: "+h)
	}
	if s := x.Served; s != nil {
		out = append(out, "served: "+servedWords(x))
	}
	if x.Warning != "" {
		out = append(out, "WARNING: "+x.Warning)
	}
	return out
}

// pressureErrors are the errors by their kind.
func pressureErrors(x *v1alpha1.Pressure) []string {
	var out []string
	if x.SocketErrors > 0 {
		out = append(out, thousands(x.SocketErrors)+" without an answer")
	}
	for _, status := range slices.Sorted(maps.Keys(x.Statuses)) {
		out = append(out, fmt.Sprintf("%s answered %s", thousands(x.Statuses[status]), status))
	}
	return out
}

// servedWords are the backends' count beside the client's.
func servedWords(x *v1alpha1.Pressure) string {
	s := x.Served
	n := thousands(s.Count)
	if len(s.AtLeast) > 0 {
		n = fmt.Sprintf("at least %s (%s killed)", n, count(len(s.AtLeast), "backend"))
	}
	least := ""
	if len(s.AtLeast) > 0 {
		least = "at least "
	}
	words := fmt.Sprintf("%s by the backends = %s answered + %s + a rest of %s%s", n, thousands(x.OK), count(x.WarmUps, "warm-up"), least, thousands(s.Rest))
	switch {
	case s.Rest > 0:
		words += ", which the client, or who stands before the backends, repeated without a word, or whose answers were lost"
	case s.Rest < 0:
		words += ": the backends did not tell of all that they served"
	}
	return words
}

// steps are the ends of the buckets that people read.
var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
}

// Histogram is a histogram in few words: "to 1ms 4,000, to 5ms 20, longer 1" of how many took
// up to so long. Buckets are joined; one that ends between two steps counts for the larger.
func Histogram(buckets []v1alpha1.Bucket) string {
	sums := make([]int, len(steps)+1)
	for _, b := range buckets {
		i, _ := slices.BinarySearch(steps, b.UpTo.D())
		sums[i] += b.Count
	}
	var words []string
	for i, n := range sums {
		switch {
		case n == 0:
		case i == len(steps):
			words = append(words, "longer "+thousands(n))
		default:
			words = append(words, fmt.Sprintf("to %s %s", steps[i], thousands(n)))
		}
	}
	return strings.Join(words, ", ")
}
