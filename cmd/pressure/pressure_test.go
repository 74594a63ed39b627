// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// heyPage is what hey v0.1.5 wrote, shortened.
const heyPage = `
Summary:
  Total:	41.0026 secs
  Requests/sec:	98.3

Response time histogram:
  0.000 [1]	|
  0.011 [39]	|■■■

Latency distribution:
  50% in 0.0006 secs

Status code distribution:
  [200]	4003 responses
  [503]	7 responses

Error distribution:
  [12]	Get "http://10.96.0.7:8080/work?takes=0&bytes=256": dial tcp 10.96.0.7:8080: connect: connection refused
  [3]	Get "http://10.96.0.7:8080/work?takes=0&bytes=256": EOF
`

func TestReadHey(t *testing.T) {
	got, err := readHey([]byte(heyPage))
	want := client{Requests: 4025, Errors: 22, Kinds: map[string]int{"503": 7, "no answer": 15}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, page := range []string{"", "Summary:\n", strings.ReplaceAll(heyPage, "[", "(")} {
		if got, err := readHey([]byte(page)); err == nil {
			t.Errorf("%q is read as %+v", page, got)
		}
	}
}

func TestReadFortio(t *testing.T) {
	const said = `{"event":{"at":1,"source":"agent","kind":"pressure","name":"fortio","attrs":{"requests":"100","errors":"6","socketErrors":"4","status.502":"2"}}}`
	got, err := readFortio([]byte(said + "\n"))
	want := client{Requests: 100, Errors: 6, Kinds: map[string]int{"no answer": 4, "502": 2}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, bad := range []string{"", "agent: no", strings.Replace(said, `"requests":"100"`, `"requests":"0"`, 1), strings.Replace(said, `"errors":"6"`, `"error":"it died"`, 1)} {
		if got, err := readFortio([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// TestRows: each fault of the areas has a row, but for those of the suite itself.
func TestRows(t *testing.T) {
	all := rows(nil)
	var faults []spec.Fault
	if all[0].Fault != "" {
		t.Errorf("the first row is %s: without one of no fault nobody knows what an error means", all[0].Fault)
	}
	for _, r := range all[1:] {
		faults = append(faults, r.Fault)
		b, ok := behaviour.Find(r.Behaviour)
		if !ok || !slices.Contains(b.BrokenBy, r.Fault) {
			t.Errorf("%s is measured in %s, which it does not break", r.Fault, r.Behaviour)
		}
	}
	for _, b := range behaviour.Catalogue() {
		area, _, _ := strings.Cut(b.ID, ".")
		for _, f := range ofApp(b) {
			if want := slices.Contains(areas, area) && !slices.Contains(ofSuite, f); want && !slices.Contains(faults, f) {
				t.Errorf("%s of %s has no row", f, b.ID)
			}
		}
	}
	for _, f := range ofSuite {
		if slices.Contains(faults, f) {
			t.Errorf("%s breaks the suite, and has a row", f)
		}
	}
	if got := rows([]string{"drops-answers"}); len(got) != 1 || got[0].Behaviour != "rollout.zero-failed" {
		t.Errorf("-only drops-answers: %+v", got)
	}
}

func TestWrite(t *testing.T) {
	clean := []client{{Name: "fortio", Requests: 10}, {Name: "new", Requests: 10}, {Name: "hey", Requests: 10}}
	seen := slices.Clone(clean)
	seen[2] = client{Name: "hey", Requests: 10, Errors: 1, Kinds: map[string]int{"no answer": 1}}
	page := string(write([]row{
		{Fault: "quiet", Behaviour: "pod.a", Verdict: spec.Fail, Clients: clean, Sent: 9, Failed: 3, Elsewhere: 8, ElsewhereFailed: 2, Kubernetes: "v1"},
		{Fault: "loud", Behaviour: "pod.b", Verdict: spec.Fail, Clients: seen},
		{Behaviour: "pod.d", Verdict: spec.Pass, Clients: seen, Kubernetes: "v1", Revision: "abc"},
		{Fault: "unclear", Behaviour: "pod.c", Verdict: spec.Inconclusive, Clients: clean},
	}))
	for _, want := range []string{
		"**1 of 3 faults are seen by none of", "`quiet`.**", "| `quiet` |", "3 of 9; elsewhere 2 of 8", "**passes it**", "1 of 10 (no answer: 1)", "| sees it |", "| sees nothing |", "| `none` |", "Kubernetes v1,", "suite abc",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
}
