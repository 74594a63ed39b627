// SPDX-License-Identifier: Apache-2.0

package match_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/match"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// kept is the run of testdata/README.md, and control its control.
const (
	kept    = "testdata/keeps-pool"
	control = "kill-d22016"
)

// tape changes what a recording holds, and word what is said of it.
type (
	tape func(*timeline.Timeline)
	word func(*behaviour.Meta)
)

// subject is a matcher with what a recording of its behaviour needs to pass and to fail it.
type subject struct {
	name, id string
	scenario string
	m        *match.Matcher
	// pass makes the kept recording pass; nil: it does.
	pass tape
	// fail breaks the rule.
	fail tape
	// seen is what the finding says of that, and culprit what it says of one.
	seen, culprit string
}

var subjects = []subject{
	{
		name: "HaveNoFailedRequests", id: "rollout.zero-failed", scenario: "rollout-74960d",
		m: match.HaveNoFailedRequests().OverAtLeast(1000),
		fail: func(tl *timeline.Timeline) {
			i := slices.IndexFunc(tl.Samples, func(s timeline.Sample) bool {
				return s.Stream == flow.Named("service/http1/new/get") && s.Start > 30*time.Second
			})
			s := &tl.Samples[i]
			s.Outcome, s.Phase, s.Status, s.First, s.Got = timeline.Reset, timeline.PhaseFirstByte, 0, 0, 0
		},
		seen: "requests failed, around 1 of 8 terminations", culprit: "service/http1/new/get: connection reset while waiting for the answer",
	},
	{
		name: "HaveReceivedGoAway", id: "h2.goaway", scenario: "delete-abee03",
		m:    match.HaveReceivedGoAway(),
		fail: without(timeline.FrameGoAway),
		seen: "connections with requests that it told or ended got no GOAWAY", culprit: "without a GOAWAY",
	},
	{
		name: "HaveClosedWithNotify", id: "tls.close-notify", scenario: "delete-abee03",
		m:    match.HaveClosedWithNotify(),
		fail: without(timeline.FrameCloseNotify),
		seen: "connections were ended without it", culprit: "without close_notify",
	},
	{
		name: "HaveEvictedFromPools", id: "pool.evicts", scenario: "rollout-7834ce",
		m: match.HaveEvictedFromPools(),
		// The kept run's gateway keeps sockets that their peer has closed.
		pass: func(tl *timeline.Timeline) {
			for _, e := range tl.EventsOf(timeline.Sockets, "") {
				left := slices.DeleteFunc(e.Held(), func(s timeline.Socket) bool { return s.State == "close-wait" })
				e.Attrs["sockets"] = timeline.ListSockets(left)
			}
		},
		seen: "371 sockets were held 1s after its exit and longer", culprit: "gateway-1 has a socket from 127.0.0.1:58924 to echo-2, in state close-wait",
	},
	{
		name: "HaveServedUntil(3s)", id: "pod.accept-after-sigterm", scenario: "delete-60ee1c",
		m: match.HaveServedUntil(3 * time.Second),
		fail: func(tl *timeline.Timeline) {
			d := tl.EventsOf(timeline.DrainStart, "")[0]
			i := slices.IndexFunc(tl.Samples, func(s timeline.Sample) bool {
				return s.Stream == flow.Named("direct/http1/new/get@"+d.Subject) && s.Start > d.At+time.Second
			})
			s := &tl.Samples[i]
			*s = timeline.Sample{Stream: s.Stream, ID: s.ID, Addr: s.Addr, Due: s.Due, Start: s.Start, End: s.End, Outcome: timeline.Refused, Phase: timeline.PhaseDial}
		},
		seen: "new connections failed within 3s of the drain's start", culprit: "direct/http1/new/get: connection refused",
	},
}

// without leaves frames of a kind out.
func without(kind timeline.FrameKind) tape {
	return func(tl *timeline.Timeline) {
		tl.Frames = slices.DeleteFunc(tl.Frames, func(f timeline.Frame) bool { return f.Kind == kind })
	}
}

// made is a copy of a run with one of its recordings changed: in what it holds, in what is
// said of it, or neither.
func made(t *testing.T, run, scenario string, own tape, about word) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(run)); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "history", scenario), own, about)
	return dir
}

func open(t *testing.T, run, id string) *behaviour.Recording {
	t.Helper()
	r, err := behaviour.Open(run, id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// deafen makes a control of one whose clients see nothing of what is killed.
func deafen(tl *timeline.Timeline) {
	for i := range tl.Samples {
		s := &tl.Samples[i]
		if s.Failed() {
			*s = timeline.Sample{Stream: s.Stream, ID: s.ID, Start: s.Start, End: s.End, Outcome: timeline.OK, Phase: timeline.PhaseDone}
		}
	}
}

func rewrite(t *testing.T, history string, own tape, about word) {
	t.Helper()
	file := filepath.Join(history, "scenario.json")
	var meta behaviour.Meta
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &meta)
	}
	if err != nil {
		t.Fatal(err)
	}
	if own != nil {
		meta.Lines = retape(t, history, own)
	}
	if about != nil {
		about(&meta)
	}
	if b, err = json.Marshal(meta); err == nil {
		err = os.WriteFile(file, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// retape writes a history anew, changed, and says how many lines its files have.
func retape(t *testing.T, history string, change tape) map[string]int {
	t.Helper()
	tl, err := timeline.Read(history)
	if err == nil {
		err = os.RemoveAll(history)
	}
	if err != nil {
		t.Fatal(err)
	}
	change(tl)
	rec, err := timeline.NewRecorder(history, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []timeline.Record
	for i := range tl.Samples {
		all = append(all, timeline.Record{Sample: &tl.Samples[i]})
	}
	for i := range tl.Events {
		all = append(all, timeline.Record{Event: &tl.Events[i]})
	}
	for i := range tl.Frames {
		all = append(all, timeline.Record{Frame: &tl.Frames[i]})
	}
	for i := range tl.Ledger {
		all = append(all, timeline.Record{Entry: &tl.Ledger[i]})
	}
	for _, one := range all {
		if err := rec.Record(one); err != nil {
			t.Fatal(err)
		}
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return rec.Lines()
}

// put is what Gomega says of To and of NotTo; "" where it holds.
func put(actual any, m *match.Matcher) (to, notTo string) {
	var said string
	g := gomega.NewGomega(func(message string, _ ...int) { said = message })
	g.Expect(actual).To(m)
	to, said = said, ""
	g.Expect(actual).NotTo(m)
	return to, said
}

func has(t *testing.T, side, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		// A message is broken into lines, and not where a test would.
		if !strings.Contains(strings.Join(strings.Fields(said), " "), w) {
			t.Errorf("%s does not say %q:\n%s", side, w, said)
		}
	}
	if len(words) == 0 && said != "" {
		t.Errorf("%s fails:\n%s", side, said)
	}
}

func TestMatchers(t *testing.T) {
	doubted := func(m *behaviour.Meta) { m.Doubt = "the machine was asleep" }
	stopped := func(m *behaviour.Meta) { m.Ended = false }
	broken := func(m *behaviour.Meta) { m.Error = "the disruption: no such pod" }
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			passing, failing := made(t, kept, s.scenario, s.pass, nil), made(t, kept, s.scenario, s.fail, nil)
			for _, tc := range []struct {
				name  string
				m     *match.Matcher
				run   string
				about word
				// control changes that.
				control tape
				// to and notTo are what they say; none: they hold.
				to, notTo []string
			}{
				{name: "it passes", run: passing, notTo: []string{s.name + " holds:", s.id, "needed)"}},
				{
					name: "it fails", run: failing,
					to: []string{s.name + " does not hold:", "--- FAIL " + s.id, "Rule:", "Seen:", s.seen, "When:", "first at +", "Culprits:", s.culprit, "History:", s.scenario},
				},
				{
					name: "it fails, and the control is blind", run: failing, control: deafen,
					to: []string{"--- FAIL " + s.id, s.culprit},
				},
				{
					name: "too little was seen", m: s.m.OverAtLeast(1_000_000), run: passing,
					to: []string{s.name + ": Inconclusive", "and at least 1000000 are needed", "What to do:"}, notTo: []string{s.name + ": Inconclusive", "1000000"},
				},
				{
					name: "a doubt", run: passing, about: doubted,
					to: []string{s.name + ": Inconclusive", "the machine was asleep", "What to do:"}, notTo: []string{s.name + ": Inconclusive", "asleep"},
				},
				{
					name: "a doubt about one that fails", run: failing, about: doubted,
					to: []string{s.name + ": Inconclusive", s.seen, "that proves nothing, because the machine was asleep"}, notTo: []string{"Inconclusive"},
				},
				{
					name: "stopped", run: passing, about: stopped,
					to: []string{s.name + ": Inconclusive", "stopped before its end"}, notTo: []string{"Inconclusive"},
				},
				{
					name: "the control is blind", run: passing, control: deafen,
					to: []string{s.name + ": Inconclusive", "this stream did not see it", "What to do:"}, notTo: []string{s.name + ": Inconclusive", "did not see it"},
				},
				{
					name: "it broke", run: passing, about: broken,
					to: []string{s.name + ": Error", "no such pod", "What to do:"}, notTo: []string{"Error"},
				},
			} {
				t.Run(tc.name, func(t *testing.T) {
					m := tc.m
					if m == nil {
						m = s.m
					}
					run := tc.run
					if tc.about != nil {
						run = made(t, run, s.scenario, nil, tc.about)
					}
					if tc.control != nil {
						run = made(t, run, control, tc.control, nil)
					}
					to, notTo := put(open(t, run, s.id), m)
					has(t, "To", to, tc.to...)
					has(t, "NotTo", notTo, tc.notTo...)
				})
			}
		})
	}
}

// A run without its control, and one in which the recording itself was not made, show nothing.
func TestWhatWasNotRecorded(t *testing.T) {
	for scenario, says := range map[string]string{control: "no control was recorded", "delete-abee03": "the scenario was not recorded"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(kept)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "history", scenario)); err != nil {
			t.Fatal(err)
		}
		to, notTo := put(open(t, dir, "h2.goaway"), match.HaveReceivedGoAway())
		has(t, "To", to, "HaveReceivedGoAway: Inconclusive", says)
		has(t, "NotTo", notTo, "HaveReceivedGoAway: Inconclusive", says)
	}
}

// The defaults are the behaviours' own floors, and a caller sets each.
func TestFloors(t *testing.T) {
	r := open(t, kept, "rollout.zero-failed")
	const fresh = "new connections offered from D to exit + P"
	m := match.HaveNoFailedRequests()
	for _, tc := range []struct {
		name  string
		m     *match.Matcher
		wants []string
	}{
		{"the behaviour's own", m, []string{"and at least 30000 are needed"}},
		{"another", m.OverAtLeast(1000), nil},
		{"of the one before nothing is kept", m, []string{"and at least 30000 are needed"}},
		{"each by its name", m.OverAtLeast(1000).WithFloor(fresh, 5000), []string{"and at least 5000 are needed"}},
		{"set again", m.OverAtLeast(1000).WithFloor(fresh, 5000).WithFloor(fresh, 0), nil},
		{"no such floor", m.WithFloor("requests", 1), []string{`no floor called "requests"`, `"` + fresh + `"`}},
		{"below 0", m.OverAtLeast(-1), []string{"is -1, and has to be 0 or more"}},
		{"none is left", m.OverAtLeast(0).WithFloor(fresh, 0).WithFloor("requests on reused connections offered from D to exit + P", 0), []string{"all of its floors are 0", "leave one above 0"}},
		{"no time", match.HaveServedUntil(0), []string{"has to be above 0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to, notTo := put(r, tc.m)
			has(t, "To", to, tc.wants...)
			if len(tc.wants) == 0 {
				tc.wants = []string{"HaveNoFailedRequests holds"}
			}
			has(t, "NotTo", notTo, tc.wants...)
		})
	}
}

func TestWhatIsNoRecording(t *testing.T) {
	for _, actual := range []any{nil, kept, (*behaviour.Recording)(nil), behaviour.Recording{}, &timeline.Timeline{}} {
		to, notTo := put(actual, match.HaveClosedWithNotify())
		has(t, "To", to, "HaveClosedWithNotify takes a *behaviour.Recording: behaviour.Open reads one", "Got:")
		has(t, "NotTo", notTo, "HaveClosedWithNotify takes a *behaviour.Recording")
	}
}

// A rule that the recording was not made for is judged by all of its traffic: with floors that
// ask for nothing that is not there, the requests to a gateway's pool are judged too.
func TestAnotherRule(t *testing.T) {
	m := match.HaveNoFailedRequests().OverAtLeast(500).WithFloor("new connections offered from D to exit + P", 0)
	to, notTo := put(open(t, kept, "pool.evicts"), m)
	has(t, "To", to, "1 of 781 requests failed", "status 502")
	has(t, "NotTo", notTo)
}
