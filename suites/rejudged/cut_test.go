// SPDX-License-Identifier: Apache-2.0

package rejudged_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var places = flag.Int("places", 0, "at how many places, beside its end, each file of all kept histories is cut; 0: 2 of a few of them")

// few are the histories that are cut always: small ones, each of which once gave a false
// Fail.
var few = []string{"kind-reference/history/push-4abbcc", "host-keeps-pool/history/delete-4a190a"}

var files = []string{timeline.SamplesFile, timeline.EventsFile, timeline.FramesFile, timeline.LedgerFile}

// TestNoCutFails cuts each file of the kept histories, at the end of lines and within
// them, leaves single lines out, and stops whole recordings early: what does not fail as a
// whole may not fail then. All of them (`-run NoCut -places 3`) take an hour.
func TestNoCutFails(t *testing.T) {
	histories, err := filepath.Glob("testdata/*/history/*")
	if err != nil {
		t.Fatal(err)
	}
	n := cmp.Or(*places, 2)
	for _, from := range histories {
		name, _ := filepath.Rel("testdata", from)
		if *places == 0 && !slices.Contains(few, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, from)
			for _, file := range files {
				for _, at := range linesOf(tr.plain[file], n) {
					tr.write(t, file, tr.plain[file][:at.begin])
					tr.judge(t, "%s ends before line %d", file, at.number)
					tr.write(t, file, tr.plain[file][:(at.begin+at.end)/2])
					tr.judge(t, "%s ends in line %d", file, at.number)
					// Nothing shows that a line is missing but that they were counted.
					tr.write(t, file, slices.Concat(tr.plain[file][:at.begin], tr.plain[file][at.end:]))
					tr.meta(t, func(m *behaviour.Meta) { m.Lines = tr.lines })
					tr.judge(t, "%s has no line %d", file, at.number)
					tr.meta(t, nil)
				}
				tr.write(t, file, tr.plain[file])
			}
			for i := range n {
				tr.stop(t, tr.last*time.Duration(i+1)/time.Duration(n+1))
			}
		})
	}
}

// span is a line of a file, counted from 1, and where it is.
type span struct{ number, begin, end int }

// linesOf are some lines of a file, in equal steps, and its last ones.
func linesOf(whole []byte, n int) []span {
	var all []span
	begin := 0
	for line := range bytes.Lines(whole) {
		all = append(all, span{len(all) + 1, begin, begin + len(line)})
		begin += len(line)
	}
	var out []span
	for i := range n {
		out = append(out, all[i*len(all)/n:min(i*len(all)/n+1, len(all))]...)
	}
	for _, last := range []int{5, 1} {
		if len(all) >= last {
			out = append(out, all[len(all)-last])
		}
	}
	return out
}

// trial is a run of one kept recording, to be spoilt.
type trial struct {
	dir, history string
	kept         behaviour.Meta
	plain        map[string][]byte
	lines        map[string]int
	last         time.Duration // of which the history tells
	whole        map[string]spec.Verdict
}

func newTrial(t *testing.T, from string) *trial {
	t.Helper()
	tr := &trial{dir: t.TempDir(), plain: map[string][]byte{}, lines: map[string]int{}}
	var run behaviour.Run
	load(t, filepath.Join(filepath.Dir(filepath.Dir(from)), "run.json"), &run)
	run.Plan = slices.DeleteFunc(run.Plan, func(s behaviour.Scenario) bool { return s.Name != filepath.Base(from) })
	tr.history = filepath.Join(tr.dir, "history", filepath.Base(from))
	if err := os.MkdirAll(tr.history, 0o755); err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(tr.dir, "run.json"), run)
	load(t, filepath.Join(from, "scenario.json"), &tr.kept)
	tr.meta(t, nil)
	for _, file := range files {
		tr.plain[file] = unpacked(t, filepath.Join(from, file+timeline.CompressedSuffix))
		tr.lines[file] = bytes.Count(tr.plain[file], []byte("\n"))
		tr.write(t, file, tr.plain[file])
		for line := range bytes.Lines(tr.plain[file]) {
			tr.last = max(tr.last, written(t, line))
		}
	}
	tr.whole = tr.verdicts(t)
	return tr
}

func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	b, err := io.ReadAll(dec)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// written is when a line was: a sample is at its end.
func written(t *testing.T, line []byte) time.Duration {
	t.Helper()
	var at struct{ At, End time.Duration }
	if err := json.Unmarshal(line, &at); err != nil {
		t.Fatal(err)
	}
	return max(at.At, at.End)
}

// stop ends the recording at an instant, as Ctrl-C does.
func (tr *trial) stop(t *testing.T, at time.Duration) {
	t.Helper()
	for _, file := range files {
		var kept []byte
		for line := range bytes.Lines(tr.plain[file]) {
			if written(t, line) <= at {
				kept = append(kept, line...)
			}
		}
		tr.write(t, file, kept)
	}
	tr.meta(t, func(m *behaviour.Meta) { m.Ended = false })
	tr.judge(t, "stopped at %s", at)
}

func (tr *trial) write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(tr.history, file), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// meta writes what is said of the recording as a whole: as it was, but for a change.
func (tr *trial) meta(t *testing.T, change func(m *behaviour.Meta)) {
	t.Helper()
	m := tr.kept
	if change != nil {
		change(&m)
	}
	save(t, filepath.Join(tr.history, "scenario.json"), m)
}

// judge says what fails of the spoilt recording that does not of the whole one.
func (tr *trial) judge(t *testing.T, how string, args ...any) {
	t.Helper()
	for id, verdict := range tr.verdicts(t) {
		if verdict == spec.Fail && tr.whole[id] != spec.Fail {
			t.Errorf("%s: %s is %s, and %s of the whole recording", fmt.Sprintf(how, args...), id, verdict, tr.whole[id])
		}
	}
}

func (tr *trial) verdicts(t *testing.T) map[string]spec.Verdict {
	t.Helper()
	all, err := behaviour.Verdicts(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]spec.Verdict{}
	for _, b := range all {
		out[b.Name()] = b.Verdict
	}
	return out
}

func load(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
