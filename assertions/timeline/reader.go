// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// Read reads the history in dir, plain or compressed, and sorts it. What is
// missing at the end of a file, because its writer was killed or the file was
// cut, is named in the timeline's Notes. A line that is broken anywhere else
// is an error that names file and line.
func Read(dir string) (*Timeline, error) {
	t := &Timeline{}
	found := 0
	for _, name := range files {
		ok, err := t.readFile(dir, name)
		if err != nil {
			return nil, fmt.Errorf("history in %s: %w", dir, err)
		}
		if ok {
			found++
		} else {
			t.note("%s: the history has no such file, plain or %s", name, CompressedSuffix)
		}
	}
	if found == 0 {
		return nil, fmt.Errorf("no history in %s: it has none of %v, plain or %s: %w", dir, files, CompressedSuffix, os.ErrNotExist)
	}
	t.Sort()
	return t, nil
}

func (t *Timeline) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// readFile adds the lines of one file and says whether there is one. The plain
// form comes first: beside a compressed one it is what a killed Close left,
// and both are whole.
func (t *Timeline) readFile(dir, name string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err == nil {
		defer f.Close()
		return true, t.readLines(name, f)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	name += CompressedSuffix
	f, err = os.Open(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() == 0 {
		// The decoder takes nothing at all for an empty history; the
		// recorder writes a frame even then.
		t.note("%s: line 1: cut at byte 0", name)
		return true, nil
	}
	dec, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	defer dec.Close()
	return true, t.readLines(name, dec)
}

// readLines adds the lines of a file. Offsets are those of the plain text.
func (t *Timeline) readLines(name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	kind := name
	if filepath.Ext(name) == CompressedSuffix {
		kind = name[:len(name)-len(CompressedSuffix)]
	}
	var offset int64
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		switch {
		case err == nil:
			if err := t.addLine(kind, line); err != nil {
				return fmt.Errorf("%s: line %d (byte %d): %w", name, number, offset, err)
			}
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			t.addCutLine(name, kind, line, number, offset)
			return nil
		default:
			return fmt.Errorf("%s: line %d (byte %d): %w", name, number, offset, err)
		}
		offset += int64(len(line))
	}
}

// addCutLine takes a last line that has no newline. A JSON object that is
// closed is whole: only its newline was lost.
func (t *Timeline) addCutLine(name, kind string, line []byte, number int, offset int64) {
	if len(line) > 0 && t.addLine(kind, line) == nil {
		t.note("%s: line %d: cut at byte %d, after its last whole record", name, number, offset+int64(len(line)))
		return
	}
	t.note("%s: line %d: cut at byte %d; its %d bytes from byte %d are no whole record and are left out",
		name, number, offset+int64(len(line)), len(line), offset)
}

// addLine adds one line of the file that kind names.
func (t *Timeline) addLine(kind string, line []byte) error {
	switch kind {
	case SamplesFile:
		return decodeLine(&t.Samples, line, checkSample)
	case EventsFile:
		return decodeLine(&t.Events, line, checkEvent)
	case FramesFile:
		return decodeLine(&t.Frames, line, checkFrame)
	default:
		return decodeLine(&t.Ledger, line, checkEntry)
	}
}

// ParseRecord reads a record that stands in a line alone, as agents send them. It
// is as strict as Read: what it takes, Recorder.Record takes.
func ParseRecord(line []byte) (Record, error) {
	var out []Record
	err := decodeLine(&out, line, func(r *Record) error {
		_, _, err := r.content()
		return err
	})
	if err != nil {
		return Record{}, err
	}
	return out[0], nil
}

// decodeLine is strict about unknown fields: a history of a newer suite must
// not be judged as if it said less than it does.
func decodeLine[T any](out *[]T, line []byte, check func(*T) error) error {
	var v T
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return err
	}
	if rest := bytes.TrimSpace(line[dec.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("more than one value in a line: %q", rest[:min(len(rest), 40)])
	}
	if err := check(&v); err != nil {
		return err
	}
	*out = append(*out, v)
	return nil
}
