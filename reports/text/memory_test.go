// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/reports/markdown"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What was killed for memory is a warning at the top, also where all behaviours passed,
// and a line at its recording.
func TestKilled(t *testing.T) {
	at := v1alpha1.Duration(7300 * time.Millisecond)
	kill := func(pod, limit string, times int) v1alpha1.MemoryKill {
		return v1alpha1.MemoryKill{Instance: pod, Container: "main", Limit: limit, At: at, Times: times}
	}
	likely := kill("gateway-1", "", 1)
	likely.Likely = true
	for name, tc := range map[string]struct {
		a, b []v1alpha1.MemoryKill
		want string // "": no line
		at   string
	}{
		"nothing": {},
		"one": {
			a:    []v1alpha1.MemoryKill{kill("probe", "512Mi", 1)},
			want: "WARNING: killed for memory, 1 time: container main of probe at its limit of 512Mi: what failed around then may have failed for that",
			at:   "killed for memory: container main of probe at its limit of 512Mi, at 7.30s",
		},
		"in two recordings": {
			a: []v1alpha1.MemoryKill{kill("probe", "512Mi", 1)}, b: []v1alpha1.MemoryKill{kill("probe", "512Mi", 1)},
			want: "WARNING: killed for memory, 2 times: container main of probe at its limit of 512Mi: what",
			at:   "killed for memory: container main of probe at its limit of 512Mi, at 7.30s",
		},
		"again and again": {
			a:    []v1alpha1.MemoryKill{kill("envoy-1", "", 3)},
			want: "3 times: container main of envoy-1, which has no limit: what",
			at:   "which has no limit, at 7.30s and later, 3 times in all",
		},
		"on a host": {
			a:    []v1alpha1.MemoryKill{likely},
			want: "1 time: gateway-1, as it seems (a SIGKILL that is none of the suite's, while the kernel counted kills for memory): what",
			at:   "gateway-1, as it seems",
		},
		"many": {
			a:    []v1alpha1.MemoryKill{kill("a", "", 1), kill("b", "", 1), kill("c", "", 1), kill("d", "", 1), kill("e", "", 1)},
			want: "container main of c, which has no limit; 2 more, which the recordings below name: what",
			at:   "killed for memory: container main of e",
		},
	} {
		r := &v1alpha1.ConformanceReport{
			Behaviours: []v1alpha1.Behaviour{{ID: "a.a", Level: spec.Must, Verdict: spec.Pass, Scenario: "a"}},
			Scenarios:  []v1alpha1.Scenario{{Name: "a", History: "history/a", KilledForMemory: tc.a}, {Name: "b", History: "history/b", KilledForMemory: tc.b}},
		}
		r.Conclude()
		line := text.Killed(r)
		if (line == "") != (tc.want == "") || !strings.Contains(line, tc.want) {
			t.Errorf("%s: %q, want %q", name, line, tc.want)
		}
		var page, md bytes.Buffer
		if err := text.Write(&page, r, text.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := markdown.Write(&md, r); err != nil {
			t.Fatal(err)
		}
		flat := strings.Join(strings.Fields(page.String()), " ")
		if !strings.Contains(flat, line) || !strings.Contains(flat, tc.at) || !strings.Contains(md.String(), line) {
			t.Errorf("%s: not told: %s\n%s", name, page.String(), md.String())
		}
		if told := strings.Contains(strings.ToLower(flat+md.String()), "killed for memory"); told != (tc.want != "") {
			t.Errorf("%s: told: %v", name, told)
		}
	}
}
