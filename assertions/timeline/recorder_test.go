// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/load/flow"
)

func sample(id string, start time.Duration) Record {
	return Record{Sample: &Sample{Stream: flow.Named("new"), ID: id, Addr: "127.0.0.1:1", Due: start, Start: start, End: start + 1, Outcome: OK, Phase: PhaseDone}}
}

func event(at time.Duration) Record {
	return Record{Event: &Event{At: at, Source: "runner", Kind: Marker, Attrs: map[string]string{"what": "steady"}}}
}

func frame(at time.Duration) Record {
	return Record{Frame: &Frame{At: at, Stream: flow.Named("h2"), Conn: 1, Kind: "GOAWAY"}}
}

func entry(id string, at time.Duration) Record {
	return Record{Entry: &Entry{At: at, ID: id, Step: Begin, Pod: "uid"}}
}

// record writes the records to a new history and returns its directory.
func record(t *testing.T, t0 time.Duration, records ...Record) (string, *Recorder) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "history")
	r, err := NewRecorder(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		if err := r.Record(rec); err != nil {
			t.Fatal(err)
		}
	}
	return dir, r
}

// What was recorded is counted, file by file: it is what a reader finds of a whole history.
func TestLines(t *testing.T) {
	dir, r := record(t, 0, sample("a", 1), sample("b", 2), event(3), entry("a", 1), entry("a", 2), entry("b", 2))
	if err := r.Record(Record{Event: &Event{}}); err == nil {
		t.Fatal("an event of no kind was recorded")
	}
	want := map[string]int{SamplesFile: 2, EventsFile: 1, FramesFile: 0, LedgerFile: 3}
	if diff := cmp.Diff(want, r.Lines()); diff != "" {
		t.Errorf("the recorder's count (-want +got):\n%s", diff)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	tl, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, tl.Lines()); diff != "" || !cmp.Equal(want, r.Lines()) {
		t.Errorf("the reader's count, and the recorder's after its end, %v (-want +got):\n%s", r.Lines(), diff)
	}
}

func TestRoundTripPlainAndCompressed(t *testing.T) {
	dir, r := record(t, 0, sample("b", 20), sample("a", 10), event(7), event(-3), frame(1), entry("a", 11))
	want := &Timeline{}
	for _, rec := range []Record{sample("a", 10), sample("b", 20), event(-3), event(7), frame(1), entry("a", 11)} {
		want.Add(rec)
	}
	for _, form := range []string{"plain", "compressed"} {
		got, err := Read(dir)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", form, d)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != len(files) {
		t.Errorf("after Close: %v", left)
	}
	for _, f := range left {
		if filepath.Ext(f) != CompressedSuffix {
			t.Errorf("%s was left after Close", f)
		}
	}
}

func TestEmitShiftsToOffsetsAndLeavesTheCallersRecord(t *testing.T) {
	const t0, clock = 1000 * time.Second, -5 * time.Second
	dir, r := record(t, t0)
	raw := sample("a", 1006*time.Second)
	if err := r.Emit(raw, clock); err != nil {
		t.Fatal(err)
	}
	if err := r.Emit(event(1005*time.Second), clock); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := got.Samples[0]
	if s.Start != time.Second || s.Due != time.Second || s.End != time.Second+1 || s.First != 0 {
		t.Errorf("sample at %v due %v end %v first %v; want 1s, 1s, 1.000000001s and 0 (never)", s.Start, s.Due, s.End, s.First)
	}
	if got.Events[0].At != 0 {
		t.Errorf("event at %v, want 0", got.Events[0].At)
	}
	if raw.Sample.Start != 1006*time.Second {
		t.Errorf("the caller's record was moved to %v", raw.Sample.Start)
	}
}

func TestRefusedRecords(t *testing.T) {
	two := sample("a", 1)
	two.Event = event(1).Event
	for _, c := range []struct {
		name string
		rec  Record
		want string
	}{
		{"nothing set", Record{}, "this one has 0"},
		{"two set", two, "this one has 2"},
		{"sample without an outcome", Record{Sample: &Sample{Stream: flow.Named("s"), ID: "i"}}, "needs stream, id and outcome"},
		{"event without a kind", Record{Event: &Event{Source: "runner"}}, "needs kind and source"},
		{"frame without a kind", Record{Frame: &Frame{Stream: flow.Named("s")}}, "needs kind and stream"},
		{"entry with another step", Record{Entry: &Entry{ID: "i", Step: "middle"}}, "a step of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, r := record(t, 0)
			if err := r.Record(c.rec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err := r.Record(sample("a", 1)); err != nil {
				t.Errorf("a refused record is not the end: %v", err)
			}
			if got, err := Read(dir); err != nil || len(got.Samples) != 1 {
				t.Errorf("read %+v, %v", got, err)
			}
		})
	}
}

func TestNeverOverAnotherHistory(t *testing.T) {
	dir, r := record(t, 0, sample("a", 1))
	for _, form := range []string{"plain", "compressed"} {
		if _, err := NewRecorder(dir, 0); err == nil || !strings.Contains(err.Error(), "give an empty directory") {
			t.Errorf("%s: %v", form, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A refusal leaves no file of its own behind.
	if err := os.Remove(filepath.Join(dir, SamplesFile+CompressedSuffix)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecorder(dir, 0); err == nil {
		t.Fatal("the other files are there")
	}
	if _, err := os.Stat(filepath.Join(dir, SamplesFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

func TestAfterClose(t *testing.T) {
	_, r := record(t, 0)
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := r.Record(sample("late", 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
}

func TestWriteErrorsAreFinal(t *testing.T) {
	dir, r := record(t, 0, sample("a", 1))
	s := r.spools[SamplesFile]
	whole := s.file
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	s.file = full
	first := r.Record(sample("b", 2))
	s.file = whole
	if first == nil || !errors.Is(r.Record(sample("c", 3)), first) {
		t.Fatalf("first %v; the next one has to be the same", first)
	}
	if err := r.Record(event(1)); err != nil {
		t.Errorf("another file: %v", err)
	}
	if err := r.Close(); !errors.Is(err, first) {
		t.Errorf("Close: %v", err)
	}
	if got, err := Read(dir); err != nil || len(got.Samples) != 1 || len(got.Events) != 1 {
		t.Errorf("read %+v, %v", got, err)
	}
}

func TestConcurrentWriters(t *testing.T) {
	const writers, each = 8, 200
	dir, r := record(t, 0)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				err := errors.Join(r.Record(sample(id, time.Duration(i))), r.Emit(event(time.Duration(i)), 5), r.Record(entry(id, 1)))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := writers * each; len(got.Samples) != n || len(got.Events) != n || len(got.Ledger) != n || len(got.Notes) != 0 {
		t.Errorf("%d samples, %d events, %d entries, notes %v; want %d of each", len(got.Samples), len(got.Events), len(got.Ledger), got.Notes, n)
	}
}

// childDir makes this test binary a recorder process that lives to be killed.
const childDir = "LASTCALL_RECORDER_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		r, err := NewRecorder(dir, 0)
		for i := 1; err == nil; i++ {
			if err = r.Record(sample(strconv.Itoa(i), time.Duration(i))); err == nil {
				_, err = fmt.Println(i) // says that record i was taken
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestKillNineLosesNothing(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []int{1, 100, 5000} {
		dir := t.TempDir()
		child := exec.Command(exe)
		child.Env = append(os.Environ(), childDir+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		taken := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if taken, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if taken == after {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		if taken < after {
			t.Fatalf("the child took %d records before its end, want %d at least", taken, after)
		}
		got, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		// One more may have been written and not yet acknowledged.
		if n := len(got.Samples); n != taken && n != taken+1 {
			t.Errorf("killed after %d: %d samples are readable, %v", taken, n, got.Notes)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	r, err := NewRecorder(b.TempDir(), 0)
	if err != nil {
		b.Fatal(err)
	}
	rec := sample("1234567890", 12345678901234)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Emit(rec, 1); err != nil {
			b.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
}
