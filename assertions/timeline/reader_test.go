// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replace writes a file of a history and removes its other form.
func replace(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
	other := name + CompressedSuffix
	if filepath.Ext(name) == CompressedSuffix {
		other = strings.TrimSuffix(name, CompressedSuffix)
	}
	if err := os.Remove(filepath.Join(dir, other)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestCutAtEveryByte(t *testing.T) {
	dir, r := record(t, 0, sample("a", 1), sample("b", 2), sample("c", 3), event(1))
	plain, err := os.ReadFile(filepath.Join(dir, SamplesFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for at := range len(plain) + 1 {
		head := plain[:at]
		replace(t, dir, SamplesFile, head)
		got, err := Read(dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", at, err)
		}
		lines := bytes.Count(head, []byte("\n"))
		clean := at == 0 || head[at-1] == '\n'
		// Only the newline was lost: the record is whole.
		wholeLast := !clean && plain[at] == '\n'
		want := lines
		if wholeLast {
			want++
		}
		if len(got.Samples) != want || len(got.Events) != 1 {
			t.Errorf("cut at %d: %d samples and %d events, want %d and 1", at, len(got.Samples), len(got.Events), want)
		}
		if clean {
			if len(got.Notes) != 0 {
				t.Errorf("cut at %d, between lines: notes %v", at, got.Notes)
			}
			continue
		}
		place := fmt.Sprintf("%s: line %d: cut at byte %d", SamplesFile, lines+1, at)
		if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], place) {
			t.Errorf("cut at %d: notes %q, want %q...", at, got.Notes, place)
		}
	}
}

func TestCompressedCutAtEveryByte(t *testing.T) {
	dir, r := record(t, 0, sample("a", 1), sample("b", 2), sample("c", 3), event(1))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	name := SamplesFile + CompressedSuffix
	whole, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(whole) {
		replace(t, dir, name, whole[:at])
		got, err := Read(dir)
		if err != nil {
			t.Fatalf("cut at %d of %d: %v", at, len(whole), err)
		}
		if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], name+": line ") {
			t.Errorf("cut at %d of %d: notes %q", at, len(whole), got.Notes)
		}
		if len(got.Events) != 1 {
			t.Errorf("cut at %d: the other files are whole, %d events", at, len(got.Events))
		}
	}
}

// A history of many blocks that is cut near its end gives what stands in the
// blocks before.
func TestCompressedCutKeepsWhatIsBefore(t *testing.T) {
	const n = 20000
	dir, r := record(t, 0)
	for i := range n {
		// Distinct IDs keep it from shrinking to one block.
		if err := r.Record(sample(fmt.Sprintf("%x", uint64(i)*0x9e3779b97f4a7c15), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	name := SamplesFile + CompressedSuffix
	whole, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	replace(t, dir, name, whole[:len(whole)*9/10])
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Samples) < n*6/10 || len(got.Samples) >= n || len(got.Notes) != 1 {
		t.Errorf("a tenth of the file is missing: %d of %d samples, notes %q", len(got.Samples), n, got.Notes)
	}
}

func TestMalformed(t *testing.T) {
	good := `{"at":1,"source":"runner","kind":"marker"}` + "\n"
	for _, c := range []struct{ name, content, want string }{
		{"broken in the middle", good + `{"at":` + "\n" + good, "events.jsonl: line 2 (byte 43)"},
		{"broken, and its newline is there", good + `{"at":` + "\n", "events.jsonl: line 2 (byte 43)"},
		{"no JSON", "hello\n" + good, "events.jsonl: line 1 (byte 0)"},
		{"empty line", good + "\n" + good, "events.jsonl: line 2 (byte 43)"},
		{"unknown field", `{"at":1,"source":"runner","kind":"marker","colour":"red"}` + "\n", `unknown field "colour"`},
		{"two in a line", strings.TrimSpace(good) + good, "more than one value in a line"},
		{"null", "null\n", "needs kind and source"},
		{"of another file", `{"at":1,"id":"a","step":"begin","pod":"u"}` + "\n", "unknown field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, r := record(t, 0)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			replace(t, dir, EventsFile, []byte(c.content))
			if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestDamagedCompression(t *testing.T) {
	dir, r := record(t, 0, event(1), event(2))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	name := EventsFile + CompressedSuffix
	whole, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)-1] ^= 1 // the checksum
	replace(t, dir, name, whole)
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), name+": line ") {
		t.Errorf("got %v, want an error that names %s", err, name)
	}
}

func TestMissingFiles(t *testing.T) {
	if _, err := Read(t.TempDir()); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no history in") {
		t.Errorf("an empty directory: %v", err)
	}
	dir, r := record(t, 0, event(1))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, LedgerFile+CompressedSuffix)); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], LedgerFile) {
		t.Errorf("notes %q, want one about %s", got.Notes, LedgerFile)
	}
}

// A Close that was killed between its last two steps leaves both forms.
func TestBothFormsAreReadOnce(t *testing.T) {
	dir, r := record(t, 0, event(1))
	plain, err := os.ReadFile(filepath.Join(dir, EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, EventsFile), plain, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil || len(got.Events) != 1 {
		t.Errorf("read %+v, %v; want one event", got, err)
	}
}
