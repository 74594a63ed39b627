// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

func TestPressure(t *testing.T) {
	const first = "fortio (100 connections, 1,000 requests/s): 1 request, 0 failed; p50 2.00ms, p90 3.00ms, p99 4.00ms, longest 5.00ms"
	for _, tc := range []struct {
		name string
		edit func(*v1alpha1.Pressure)
		want []string
	}{
		{"plain", func(*v1alpha1.Pressure) {}, []string{first}},
		{"an old one", func(p *v1alpha1.Pressure) { p.Conns, p.Max, p.P90 = 0, 0, 0 },
			[]string{"fortio: 1 request, 0 failed; p50 2.00ms, p99 4.00ms"}},
		{"without a summary", func(p *v1alpha1.Pressure) { p.Error, p.Warning = "it was killed", "w" },
			[]string{"fortio: no summary: it was killed"}},
		{"with errors", func(p *v1alpha1.Pressure) {
			p.Errors, p.SocketErrors, p.Statuses = 1234, 1000, map[string]int{"503": 200, "500": 34}
		}, []string{"fortio (100 connections, 1,000 requests/s): 1 request, 1,234 failed (1,000 without an answer, 34 answered 500, 200 answered 503); p50 2.00ms, p90 3.00ms, p99 4.00ms, longest 5.00ms"}},
		{"with all there is to tell", func(p *v1alpha1.Pressure) {
			p.Lowered, p.Stopped, p.Warning = "too few cores", "no endpoint", "errors"
			p.Histogram = []v1alpha1.Bucket{{UpTo: v1alpha1.Duration(time.Millisecond), Count: 1}}
			p.Served = &v1alpha1.PressureServed{Count: 1}
		}, []string{
			first, "rate: too few cores", "ended early: no endpoint", "took: to 1ms 1",
			"served: 1 by the backends = 0 answered + 0 warm-ups + a rest of 0", "WARNING: errors",
		}},
	} {
		ms := func(n int) v1alpha1.Duration { return v1alpha1.Duration(time.Duration(n) * time.Millisecond) }
		p := v1alpha1.Pressure{Name: "fortio", Conns: 100, QPS: 1000, Requests: 1, P50: ms(2), P90: ms(3), P99: ms(4), Max: ms(5)}
		tc.edit(&p)
		if d := cmp.Diff(tc.want, text.Pressure(&p)); d != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, d)
		}
	}
}

// The rest has its explanation where there is one.
func TestServed(t *testing.T) {
	for _, tc := range []struct {
		name        string
		ok, warmUps int
		served      v1alpha1.PressureServed
		want        string
	}{
		{"nothing is left", 1000, 100, v1alpha1.PressureServed{Count: 1100},
			"1,100 by the backends = 1,000 answered + 100 warm-ups + a rest of 0"},
		{"something is left", 1000, 1, v1alpha1.PressureServed{Count: 1008, Rest: 7},
			"1,008 by the backends = 1,000 answered + 1 warm-up + a rest of 7, which the client, or who stands before the backends, repeated without a word, or whose answers were lost"},
		{"less than nothing", 2000, 100, v1alpha1.PressureServed{Count: 900, Rest: -1200},
			"900 by the backends = 2,000 answered + 100 warm-ups + a rest of -1,200: the backends did not tell of all that they served"},
		{"one was killed", 10, 1, v1alpha1.PressureServed{Count: 11, AtLeast: []string{"a"}},
			"at least 11 (1 backend killed) by the backends = 10 answered + 1 warm-up + a rest of at least 0"},
		{"two were killed", 10, 1, v1alpha1.PressureServed{Count: 8, AtLeast: []string{"a", "b"}, Rest: -3},
			"at least 8 (2 backends killed) by the backends = 10 answered + 1 warm-up + a rest of at least -3: the backends did not tell of all that they served"},
	} {
		got := text.Pressure(&v1alpha1.Pressure{Name: "fortio", OK: tc.ok, WarmUps: tc.warmUps, Served: &tc.served})
		if last := got[len(got)-1]; last != "served: "+tc.want {
			t.Errorf("%s: %q, want %q", tc.name, last, tc.want)
		}
	}
}

func TestHistogram(t *testing.T) {
	at := func(upTo time.Duration, n int) v1alpha1.Bucket {
		return v1alpha1.Bucket{UpTo: v1alpha1.Duration(upTo), Count: n}
	}
	for _, tc := range []struct {
		name    string
		buckets []v1alpha1.Bucket
		want    string
	}{
		{"none", nil, ""},
		{"an empty one", []v1alpha1.Bucket{at(time.Millisecond, 0)}, ""},
		{"up to a step", []v1alpha1.Bucket{at(time.Millisecond, 4000)}, "to 1ms 4,000"},
		{"past a step", []v1alpha1.Bucket{at(time.Millisecond+1, 3)}, "to 2ms 3"},
		{"joined", []v1alpha1.Bucket{at(300*time.Microsecond, 1), at(time.Millisecond, 2), at(6*time.Millisecond, 4), at(10*time.Millisecond, 8)}, "to 1ms 3, to 10ms 12"},
		{"the last step and what is longer", []v1alpha1.Bucket{at(5*time.Second, 2), at(5*time.Second+1, 1), at(time.Minute, 1)}, "to 5s 2, longer 2"},
	} {
		if got := text.Histogram(tc.buckets); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
