// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// recorded are lines of a rollout on the host stage, as it wrote them.
var recorded = map[string]string{
	SamplesFile: `{"stream":"service/http1/new/get","id":"86ff0e77ca3cd4c5-0","conn":1,"nth":1,"addr":"127.0.0.1:45397","local":"127.240.5.209:34048","due":864998229,"start":865430947,"dial":865663230,"sent":865674954,"first":866785117,"end":866821254,"outcome":"ok","phase":"done","status":200,"got":256,"want":256,"server":"be0c7a38-e5f1-45da-9139-1042212eafd4"}` + "\n",
	EventsFile:  `{"at":1196387,"source":"host","kind":"pod.seen","subject":"be0c7a38-e5f1-45da-9139-1042212eafd4","name":"echo-1","node":"host","attrs":{"ip":"127.135.156.6","node":"host"}}` + "\n",
	FramesFile: `{"at":7770448470,"stream":"service/h2c/reused/get","conn":1,"kind":"goaway","attrs":{"code":"NO_ERROR","last":"2147483647"}}` + "\n" +
		`{"at":7800541361,"stream":"service/http1/new/get","conn":1041,"kind":"fin"}` + "\n",
	LedgerFile: `{"at":869334629,"id":"3bd1521baec8d208-0","step":"begin","pod":"dac72799-4fb9-475d-bf9b-45c0f31841f5","method":"GET"}` + "\n" +
		`{"at":869788346,"id":"3bd1521baec8d208-0","step":"done","pod":"dac72799-4fb9-475d-bf9b-45c0f31841f5","method":"GET","bytes":256,"whole":true}` + "\n",
}

// seed adds whole, cut and broken histories, each for the file of its kind.
func seed(f *testing.F, form func(plain string) []byte) {
	for kind, name := range files {
		whole := recorded[name]
		for _, text := range []string{
			"", "\n", "null\n", "{}\n", "{}", whole, strings.Repeat(whole, 3), whole[:len(whole)-1], whole[:len(whole)/2],
			whole[:len(whole)/2] + "\n" + whole, whole + "\n" + whole, strings.TrimSpace(whole) + whole,
			strings.Replace(whole, ":", ":\x00", 1), strings.Replace(whole, "at", "AT", 1),
		} {
			f.Add(uint8(kind), form(text))
		}
	}
}

func (t *Timeline) count() int {
	return len(t.Samples) + len(t.Events) + len(t.Frames) + len(t.Ledger)
}

// read reads one file of a history.
func read(kind uint8, suffix string, r io.Reader) (name string, t *Timeline, err error) {
	name, t = files[int(kind)%len(files)]+suffix, &Timeline{}
	return name, t, t.readLines(name, r)
}

// held says what is wrong with how a text was read: each of its lines must be a
// record, or named.
func held(text []byte, name string, t *Timeline, err error) string {
	lines := bytes.SplitAfter(text, []byte("\n"))
	tail := lines[len(lines)-1]
	whole := len(lines) - 1
	switch {
	case err != nil:
		at := regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `: line (\d+) \(byte (\d+)\): `).FindStringSubmatch(err.Error())
		if at == nil {
			return fmt.Sprintf("the error names no line: %v", err)
		}
		line, _ := strconv.Atoi(at[1])
		offset, _ := strconv.Atoi(at[2])
		if line != t.count()+1 || line > whole || offset != len(bytes.Join(lines[:line-1], nil)) {
			return fmt.Sprintf("after %d records, of %d lines: %v", t.count(), whole, err)
		}
	case len(tail) == 0:
		if t.count() != whole || len(t.Notes) != 0 {
			return fmt.Sprintf("%d records of %d lines, notes %q", t.count(), whole, t.Notes)
		}
	default:
		mark := fmt.Sprintf("%s: line %d: cut at byte %d", name, whole+1, len(text))
		if len(t.Notes) != 1 || !strings.HasPrefix(t.Notes[0], mark) {
			return fmt.Sprintf("notes %q, want one: %s", t.Notes, mark)
		}
		if left := strings.HasSuffix(t.Notes[0], "left out"); left != (t.count() == whole) || t.count() > whole+1 {
			return fmt.Sprintf("%d records of %d lines and a cut one, notes %q", t.count(), whole, t.Notes)
		}
	}
	return ""
}

// Each line of a plain file is a record, or it is named: nothing is lost without
// a word. What was read is written and read again as it was.
func FuzzReadPlain(f *testing.F) {
	seed(f, func(plain string) []byte { return []byte(plain) })
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		name, got, err := read(kind, "", bytes.NewReader(text))
		if wrong := held(text, name, got, err); wrong != "" {
			t.Fatal(wrong)
		}
		var again bytes.Buffer
		for _, rec := range got.records() {
			file, line, err := encode(rec)
			if err != nil || file != name {
				t.Fatalf("what was read is not written: to %q, %v", file, err)
			}
			again.Write(line)
		}
		_, second, err := read(kind, "", bytes.NewReader(again.Bytes()))
		if err != nil || fmt.Sprint(second.records()) == "" || second.count() != got.count() {
			t.Fatalf("read again: %d of %d records, %v", second.count(), got.count(), err)
		}
		for i, rec := range second.records() {
			_, a, _ := encode(got.records()[i])
			_, b, _ := encode(rec)
			if !bytes.Equal(a, b) {
				t.Fatalf("read again: %s, want %s", b, a)
			}
		}
	})
}

// records are all that a timeline holds.
func (t *Timeline) records() []Record {
	var out []Record
	for i := range t.Samples {
		out = append(out, Record{Sample: &t.Samples[i]})
	}
	for i := range t.Events {
		out = append(out, Record{Event: &t.Events[i]})
	}
	for i := range t.Frames {
		out = append(out, Record{Frame: &t.Frames[i]})
	}
	for i := range t.Ledger {
		out = append(out, Record{Entry: &t.Ledger[i]})
	}
	return out
}

// A compressed file that is cut or damaged says so, and gives what stands before.
func FuzzReadCompressed(f *testing.F) {
	seed(f, pack)
	whole := pack(recorded[LedgerFile])
	f.Add(uint8(3), whole[:len(whole)-1])
	f.Add(uint8(3), append(slices.Clone(whole), whole...))
	f.Add(uint8(3), append(slices.Clone(whole), 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0)) // a frame to skip
	f.Add(uint8(3), append(slices.Clone(whole), "more"...))
	f.Fuzz(func(t *testing.T, kind uint8, packed []byte) {
		if len(packed) > 4<<10 {
			return // a block of 4 bytes can be one of 128 KiB
		}
		dec, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return
		}
		defer dec.Close()
		name, got, err := read(kind, CompressedSuffix, dec)
		plain, broken := unpack(packed)
		if broken == nil {
			if wrong := held(plain, name, got, err); wrong != "" {
				t.Fatal(wrong)
			}
			return
		}
		// What the decoder gave before it failed is none of its promises: an
		// error or a note with a line is.
		mark := name + ": line "
		if (err == nil || !strings.HasPrefix(err.Error(), mark)) && (len(got.Notes) != 1 || !strings.HasPrefix(got.Notes[0], mark)) {
			t.Fatalf("the file is damaged (%v), and reading it gave %d records, notes %q, %v", broken, got.count(), got.Notes, err)
		}
	})
}

func pack(plain string) []byte {
	var b bytes.Buffer
	// Neither fails: a buffer takes everything.
	enc, _ := zstd.NewWriter(&b)
	_, _ = enc.Write([]byte(plain))
	_ = enc.Close()
	return b.Bytes()
}

// unpack decodes a file as a whole.
func unpack(packed []byte) ([]byte, error) {
	dec, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return io.ReadAll(dec)
}
