// SPDX-License-Identifier: Apache-2.0

package compare_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/reports/compare"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestSeriesGolden(t *testing.T) {
	lost := series(run(t), run(t, loses(7, 2)), run(t, judge("pod.inflight-completes", spec.Inconclusive, "only 3 requests were in flight at D")), run(t))
	for file, tc := range map[string]struct {
		in    []compare.Input
		write func(io.Writer, *compare.Series) error
	}{
		"series.txt":  {lost, compare.WriteSeriesText},
		"series.md":   {lost, compare.WriteSeriesMarkdown},
		"series.yaml": {lost[:2], compare.WriteSeriesYAML},
	} {
		t.Run(file, func(t *testing.T) {
			s, err := compare.SeriesOf(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := tc.write(&got, s); err != nil {
				t.Fatal(err)
			}
			golden(t, file, got.String())
		})
	}
}

// What some runs have counted is so many times what one has, and the bound of what none of them lost so much tighter.
func TestSeriesAddsUp(t *testing.T) {
	one := run(t, func(r *v1alpha1.ConformanceReport) { r.Behaviours[0].Findings[0].Evidence[0].At = "echo-1" })
	const runs = 3
	var in []compare.Input
	for range runs {
		in = append(in, later(one, len(in)))
	}
	s, err := compare.SeriesOf(in)
	if err != nil {
		t.Fatal(err)
	}
	if s.ExitCode != v1alpha1.ExitPass || s.Verdict != spec.Pass {
		t.Errorf("all passed, and the series is %s, exit code %d", s.Verdict, s.ExitCode)
	}
	bounded := 0
	for _, is := range s.Behaviours {
		was := judgedBy(t, one.Report, is.Name)
		if is.Passed != runs || is.Judged != runs || len(is.Otherwise) > 0 {
			t.Errorf("%s: %d of %d passed, otherwise %v", is.Name, is.Passed, is.Judged, is.Otherwise)
		}
		for _, f := range was.Findings {
			if f.Bounds == nil {
				continue
			}
			for _, l := range is.Lost {
				if l.Check != f.Check {
					continue
				}
				bounded++
				if l.Bounds.Terminations != runs*f.Bounds.Terminations || l.Bounds.Requests != runs*f.Bounds.Requests {
					t.Errorf("%s: %+v is not so many times %+v", is.Name, *l.Bounds, *f.Bounds)
				}
				if most := 3 / float64(runs*f.Bounds.Requests); f.Bounds.Lost == 0 && l.Bounds.PerRequest != most {
					t.Errorf("%s: at most %v of the requests are lost, and not %v", is.Name, most, l.Bounds.PerRequest)
				}
			}
		}
		for _, e := range is.Evidence {
			once := spec.Count{}
			for _, f := range was.Findings {
				for _, o := range f.Evidence {
					if strings.TrimSuffix(e.Name, ", at each") == o.Name && e.Of == o.Of && once.Name == "" {
						once = o
					}
				}
			}
			if e.N != runs*once.N || e.Floor != runs*once.Floor {
				t.Errorf("%s: %+v is not so many times %+v", is.Name, e, once)
			}
		}
	}
	if first := s.Behaviours[slices.IndexFunc(s.Behaviours, func(b compare.Repeated) bool { return b.Name == one.Report.Behaviours[0].Name() })]; !strings.HasSuffix(first.Evidence[0].Name, ", at each") {
		t.Errorf("which target had the fewest is told as if it were one in all runs: %+v", first.Evidence[0])
	}
	if bounded == 0 {
		t.Error("no behaviour of the run bounds a loss")
	}
}

// later is a report of a run that began so many hours later.
func later(in compare.Input, hours int) compare.Input {
	r := *in.Report
	r.Metadata.Date = r.Metadata.Date.Add(time.Duration(hours) * time.Hour)
	in.Report = &r
	return in
}

// series are reports of runs one after the other.
func series(in ...compare.Input) []compare.Input {
	for n := range in {
		in[n] = later(in[n], n)
	}
	return in
}

func judgedBy(t *testing.T, r *v1alpha1.ConformanceReport, name string) *v1alpha1.Behaviour {
	t.Helper()
	for i := range r.Behaviours {
		if r.Behaviours[i].Name() == name {
			return &r.Behaviours[i]
		}
	}
	t.Fatalf("the series has %s, and the run has not", name)
	return nil
}

// One run of ten that failed decides, and the one that was skipped was not judged.
func TestSeriesIsTheWorst(t *testing.T) {
	s, err := compare.SeriesOf(series(run(t), run(t, loses(1, 1)), run(t, judge("pod.inflight-completes", spec.Skipped, "not here"))))
	if err != nil {
		t.Fatal(err)
	}
	if s.ExitCode != v1alpha1.ExitFail || s.Verdict != spec.Fail {
		t.Errorf("one failed, and the series is %s, exit code %d", s.Verdict, s.ExitCode)
	}
	if b := s.Behaviours[0]; b.Name != "rollout.zero-failed" || b.Passed != 2 || b.Judged != 3 || len(b.Otherwise) != 1 || b.Otherwise[0].Report != 2 {
		t.Errorf("what failed comes first: %+v", b)
	}
	for _, b := range s.Behaviours {
		if b.Name == "pod.inflight-completes" && (b.Passed != 2 || b.Judged != 2) {
			t.Errorf("it passed where it was judged: %d of %d", b.Passed, b.Judged)
		}
	}
}

func TestSeriesRefuses(t *testing.T) {
	well := run(t)
	for want, in := range map[string][]compare.Input{
		"two reports or more":            {well},
		"add up those of one system":     {well, run(t, func(r *v1alpha1.ConformanceReport) { r.Implementation.Project = "other" })},
		"their recordings are not alike": {well, run(t, func(r *v1alpha1.ConformanceReport) { r.Stage = "host" })},
		"was run with fault no-goaway":   {well, run(t, func(r *v1alpha1.ConformanceReport) { r.Settings.Fault = "no-goaway" })},
		"a kill matrix tests the suite":  {well, run(t, func(r *v1alpha1.ConformanceReport) { r.Matrix = &v1alpha1.Matrix{} })},
	} {
		if _, err := compare.SeriesOf(series(in...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

// A report that is named twice would bound losses twice as well.
func TestSeriesRefusesTheSameTwice(t *testing.T) {
	well := run(t)
	if _, err := compare.SeriesOf([]compare.Input{well, later(well, 1), well}); err == nil || !strings.Contains(err.Error(), "are the same report") {
		t.Errorf("got %v", err)
	}
}

// What was Inconclusive bounds nothing.
func TestSeriesOfWhatWasDecided(t *testing.T) {
	doubtful := run(t, func(r *v1alpha1.ConformanceReport) {
		for i := range r.Behaviours {
			r.Behaviours[i].Verdict = spec.Inconclusive
		}
	})
	one := run(t)
	s, err := compare.SeriesOf(series(one, doubtful))
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range s.Behaviours {
		for _, l := range is.Lost {
			for _, f := range judgedBy(t, one.Report, is.Name).Findings {
				if f.Check == l.Check && l.Bounds.Requests != f.Bounds.Requests {
					t.Errorf("%s: %+v counts a run that was Inconclusive", is.Name, *l.Bounds)
				}
			}
		}
	}
}
