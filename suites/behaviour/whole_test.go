// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// history are the files of a recording as lines, and what lies beside them.
type history struct {
	meta  Meta
	lines map[string][][]byte
	// cut leaves half of a file's last line.
	cut string
}

// events leaves out the events of a kind.
func (h *history) events(but timeline.EventKind) {
	h.lines[timeline.EventsFile] = slices.DeleteFunc(h.lines[timeline.EventsFile], func(l []byte) bool {
		return bytes.Contains(l, fmt.Appendf(nil, `"kind":%q`, but))
	})
}

// without leaves out a file's n-th line, from the end if n is below 0.
func (h *history) without(name string, n int) {
	if n < 0 {
		n += len(h.lines[name])
	}
	h.lines[name] = slices.Delete(h.lines[name], n, n+1)
}

// judged writes a recording of one behaviour with all kinds of lines, in which one sample
// fails, lets spoil change it, and judges it.
// certain is the error of what no lack of CPU makes.
const certain = "certain"

func judged(t *testing.T, add func(emit func(timeline.Record), meta *Meta), spoil func(h *history)) (verdict spec.Verdict, reason string) {
	t.Helper()
	b := sample("a.a")
	b.Checks = []assertions.Check{{
		Name: "no failure", Expected: "none", Floors: []assertions.Floor{{Name: "n", N: 1}},
		Judge: func(c assertions.Case) spec.Finding {
			for _, s := range c.Timeline.Samples {
				if s.Failed() {
					return spec.Finding{Verdict: spec.Fail, Actual: "one failed", Culprits: []spec.Culprit{{Text: "x"}}, Certain: s.Err == certain}
				}
			}
			return spec.Finding{Verdict: spec.Pass, Actual: "none", Evidence: []spec.Count{{Name: "n", N: 1, Floor: 1}}}
		},
	}}
	s := Fold([]Behaviour{b}, "", false)[0]
	stream := s.Traffic[0].Flow.String()
	dir := t.TempDir()
	tape(t, dir, s, func(emit func(timeline.Record), m *Meta) {
		for i := range 30 {
			at := 4*time.Second + time.Duration(i)*100*time.Millisecond
			emit(timeline.Record{Sample: &timeline.Sample{
				Stream: flow.Named(stream), ID: "c0ffee-" + strconv.Itoa(i), Start: at, End: at + 1,
				Outcome: timeline.OK, Phase: timeline.PhaseDone, Status: 200, Got: 256, Want: 256,
			}})
			emit(timeline.Record{Entry: &timeline.Entry{At: at, ID: "c0ffee-" + strconv.Itoa(i), Step: timeline.Begin, Pod: "uid"}})
			emit(timeline.Record{Frame: &timeline.Frame{At: at, Stream: flow.Named(stream), Conn: 1, Kind: timeline.FrameFIN}})
		}
		emit(timeline.Record{Event: &timeline.Event{At: 6 * time.Second, Source: "echo", Kind: timeline.DrainStart, Subject: "uid"}})
		tail := map[string]string{"why": "process-exit", "lines": "31", "partial": "0"}
		emit(timeline.Record{Event: &timeline.Event{At: 6900 * time.Millisecond, Source: "witness", Kind: timeline.LedgerTail, Subject: "uid", Attrs: tail}})
		emit(timeline.Record{Event: &timeline.Event{At: 7 * time.Second, Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkTail}}})
		if add != nil {
			add(emit, m)
		}
	})
	folder := historyDir(dir, s.Name)
	h := &history{lines: map[string][][]byte{}}
	if err := readJSON(filepath.Join(folder, scenarioFile), &h.meta); err != nil {
		t.Fatal(err)
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	for name := range h.meta.Lines {
		packed, err := os.ReadFile(filepath.Join(folder, name+timeline.CompressedSuffix))
		if err == nil {
			packed, err = dec.DecodeAll(packed, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.lines[name] = slices.Collect(bytes.Lines(packed))
	}
	if spoil != nil {
		spoil(h)
	}
	if err := writeJSON(filepath.Join(folder, scenarioFile), h.meta); err != nil {
		t.Fatal(err)
	}
	for name, lines := range h.lines {
		content := bytes.Join(lines, nil)
		if name == h.cut {
			content = content[:len(content)-len(lines[len(lines)-1])/2]
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := readRecording(dir, s, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got := r.judge(b, func(system.Role, flow.Flow) string { return "" })
	return got.Verdict, got.Reason
}

// failing adds a violation.
func failing(emit func(timeline.Record), _ *Meta) {
	emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: "c0ffee-30", Start: 6 * time.Second, End: 6*time.Second + 1, Outcome: timeline.Refused, Phase: timeline.PhaseDial}})
}

// What is not whole, or contradicts itself, proves nothing against anybody and for nobody;
// what was only stopped keeps its violations.
func TestWhatIsNotWholeProvesNothing(t *testing.T) {
	stopped := func(h *history) {
		h.meta.Ended = false
		h.without(timeline.EventsFile, -1) // the mark of the tail
	}
	uncounted := func(h *history) { h.meta.Lines = nil }
	type spoiling struct {
		name  string
		spoil func(h *history)
		// why is what the reason says; "" where the verdict is that of the whole.
		why string
	}
	tests := []spoiling{
		{"whole", nil, ""},
		{"of a recorder that counted nothing", uncounted, ""},
		{"stopped by Ctrl-C", func(h *history) {
			stopped(h)
			h.meta.Lines[timeline.EventsFile]--
		}, "stopped"},
		{"stopped before anybody counted", func(h *history) { stopped(h); uncounted(h) }, "stopped"},
		{"stopped, and a line is missing", func(h *history) { stopped(h); h.without(timeline.FramesFile, 3) }, "events.jsonl has"},
		{"uncounted, without the mark of its end", func(h *history) { uncounted(h); h.without(timeline.EventsFile, -1) }, "the mark of it"},
		{"uncounted, without a sample", func(h *history) { uncounted(h); h.without(timeline.SamplesFile, 30) }, "samples, and numbered"},
		{"uncounted, without its last samples", func(h *history) {
			uncounted(h)
			lines := h.lines[timeline.SamplesFile]
			h.lines[timeline.SamplesFile] = lines[:len(lines)-20]
		}, "before the load's end"},
		{"uncounted, without a line of a ledger", func(h *history) { uncounted(h); h.without(timeline.LedgerFile, 4) }, "pod uid wrote 31 lines"},
		{"uncounted, without a pod's own word", func(h *history) { uncounted(h); h.events(timeline.DrainStart) }, "pod uid wrote 31 lines"},
		{"ok with 503", change(`"status":200`, `"status":503`), "ok, with status 503"},
		{"ok with a part", change(`"got":256`, `"got":10`), "ok, with 10 of 256"},
		{"ok with a call's status", change(`"status":200`, `"status":200,"grpc":"14"`), "ok, with grpc-status 14"},
		{"an ID twice", change(`"id":"c0ffee-7"`, `"id":"c0ffee-8"`), "has the request c0ffee-8 twice"},
	}
	for _, name := range []string{timeline.SamplesFile, timeline.EventsFile, timeline.FramesFile, timeline.LedgerFile} {
		tests = append(tests,
			spoiling{name + " without its last line", func(h *history) { h.without(name, -1) }, name + " has"},
			spoiling{name + " without a line", func(h *history) { h.without(name, 2) }, name + " has"},
			spoiling{name + " cut in a line", func(h *history) { h.cut = name }, "no whole record"},
			spoiling{name + " cut in a line, uncounted", func(h *history) { h.cut = name; uncounted(h) }, "no whole record"},
			spoiling{name + " cut in a line, and stopped", func(h *history) { h.cut = name; stopped(h); uncounted(h) }, "no whole record"},
		)
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			verdict, reason := judged(t, nil, tc.spoil)
			if want := spec.Pass; tc.why == "" && verdict != want {
				t.Errorf("nothing failed: %v (%s), want %v", verdict, reason, want)
			} else if tc.why != "" && (verdict != spec.Inconclusive || !strings.Contains(reason, tc.why)) {
				t.Errorf("nothing failed: %v (%s), want Inconclusive (%s)", verdict, reason, tc.why)
			}
			verdict, reason = judged(t, failing, func(h *history) {
				if tc.spoil != nil {
					tc.spoil(h)
				}
			})
			if tc.why == "" || tc.why == "stopped" {
				if verdict != spec.Fail {
					t.Errorf("one failed: %v (%s), want Fail", verdict, reason)
				}
				return
			}
			// The violation is told first, where it is still there.
			if verdict != spec.Inconclusive || !strings.HasPrefix(reason, "one failed: ") && !strings.HasPrefix(tc.name, timeline.SamplesFile) && tc.name != "uncounted, without its last samples" {
				t.Errorf("one failed: %v (%s), want Inconclusive, and that one failed", verdict, reason)
			}
		})
	}
}

// change replaces the last of a text in the samples.
func change(old, by string) func(h *history) {
	return func(h *history) {
		lines := h.lines[timeline.SamplesFile]
		for i := range slices.Backward(lines) {
			if bytes.Contains(lines[i], []byte(old)) {
				lines[i] = bytes.Replace(lines[i], []byte(old), []byte(by), 1)
				return
			}
		}
	}
}

// A pod that was killed may have been in the middle of a line.
func TestALedgerThatEndsInALine(t *testing.T) {
	ends := func(code string) func(func(timeline.Record), *Meta) {
		return func(emit func(timeline.Record), _ *Meta) {
			emit(timeline.Record{Event: &timeline.Event{At: 6950 * time.Millisecond, Source: "witness", Kind: timeline.LedgerTail, Subject: "uid", Attrs: map[string]string{"why": "process-exit", "lines": "31", "partial": "17"}}})
			emit(timeline.Record{Event: &timeline.Event{At: 6960 * time.Millisecond, Source: "observe", Kind: timeline.PodContainer, Subject: "uid", Attrs: map[string]string{"state": "terminated", "exitCode": code}}})
		}
	}
	for code, want := range map[string]spec.Verdict{"137": spec.Pass, "0": spec.Inconclusive, "1": spec.Inconclusive} {
		if verdict, reason := judged(t, ends(code), nil); verdict != want || want != spec.Pass && !strings.Contains(reason, "ends in the middle of a line") {
			t.Errorf("exit code %s: %v (%s), want %v", code, verdict, reason, want)
		}
	}
	verdict, reason := judged(t, func(emit func(timeline.Record), m *Meta) { ends("137")(emit, m); failing(emit, m) }, nil)
	if verdict != spec.Fail {
		t.Errorf("a violation beside it: %v (%s), want Fail", verdict, reason)
	}
}
