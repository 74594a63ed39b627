// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lastcall-dev/lastcall/load/flow"
)

// files are the files of a history, one for each field of a Record.
var files = []string{SamplesFile, EventsFile, FramesFile, LedgerFile}

// Recorder spools records to the files of a history. It is safe for
// concurrent use.
type Recorder struct {
	dir    string
	t0     time.Duration
	spools map[string]*spool
}

// NewRecorder begins a history in dir, which is made when it is missing and
// may not hold a history yet. t0 is the CLOCK_MONOTONIC reading that offsets
// count from.
func NewRecorder(dir string, t0 time.Duration) (*Recorder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("directory for a history: %w", err)
	}
	r := &Recorder{dir: dir, t0: t0, spools: map[string]*spool{}}
	for _, name := range files {
		s, err := openSpool(filepath.Join(dir, name))
		if err != nil {
			for _, s := range r.spools {
				err = errors.Join(err, s.file.Close(), os.Remove(s.file.Name()))
			}
			return nil, err
		}
		r.spools[name] = s
	}
	return r, nil
}

// Record writes a record whose times are offsets from T0. The line is with
// the kernel when it returns, so that a kill of this process loses nothing. A
// failed write is final: every later one for the same file returns it too. A
// record that no reader would take is refused, and costs nothing else.
func (r *Recorder) Record(rec Record) error {
	name, line, err := encode(rec)
	if err != nil {
		return err
	}
	return r.spools[name].write(line)
}

// Emit writes a record whose times are raw readings of an agent's clock.
// clockOffset is what has to be added to them to get this machine's
// CLOCK_MONOTONIC. The caller's record is left as it is.
func (r *Recorder) Emit(rec Record, clockOffset time.Duration) error {
	rec = rec.clone()
	rec.Shift(clockOffset - r.t0)
	return r.Record(rec)
}

// Close ends the history and compresses its files. A file that can't be
// compressed stays as it is, readable all the same. It returns all that went
// wrong since NewRecorder; a second Close does nothing.
func (r *Recorder) Close() error {
	var errs []error
	for _, name := range files {
		errs = append(errs, r.spools[name].close())
	}
	return errors.Join(errs...)
}

// Lines are how many records each file has: who has fewer has not the whole history.
func (r *Recorder) Lines() map[string]int {
	out := map[string]int{}
	for _, name := range files {
		out[name] = r.spools[name].written()
	}
	return out
}

// clone copies the record as deep as Shift reaches.
func (r Record) clone() Record {
	switch {
	case r.Sample != nil:
		s := *r.Sample
		r.Sample = &s
	case r.Event != nil:
		e := *r.Event
		r.Event = &e
	case r.Frame != nil:
		f := *r.Frame
		r.Frame = &f
	case r.Entry != nil:
		e := *r.Entry
		r.Entry = &e
	}
	return r
}

// encode gives the file that a record belongs to and its line there.
func encode(rec Record) (file string, line []byte, err error) {
	file, value, err := rec.content()
	if err != nil {
		return "", nil, fmt.Errorf("not recorded: %w", err)
	}
	line, err = json.Marshal(value)
	if err != nil {
		return "", nil, fmt.Errorf("a line of %s: %w", file, err)
	}
	return file, append(line, '\n'), nil
}

// content gives the file that a record belongs to and what it holds, or says why
// no reader would take it.
func (r Record) content() (file string, value any, err error) {
	set := 0
	if r.Sample != nil {
		set, file, value, err = set+1, SamplesFile, r.Sample, checkSample(r.Sample)
	}
	if r.Event != nil {
		set, file, value, err = set+1, EventsFile, r.Event, checkEvent(r.Event)
	}
	if r.Frame != nil {
		set, file, value, err = set+1, FramesFile, r.Frame, checkFrame(r.Frame)
	}
	if r.Entry != nil {
		set, file, value, err = set+1, LedgerFile, r.Entry, checkEntry(r.Entry)
	}
	if set != 1 {
		return "", nil, fmt.Errorf("a record has exactly one of sample, event, frame and entry; this one has %d", set)
	}
	return file, value, err
}

// The checks say what a line must have to be evidence at all. They are the
// same on both sides: what the recorder takes, the reader takes.

func checkSample(s *Sample) error {
	if s.Stream == (flow.Stream{}) || s.ID == "" || s.Outcome == "" {
		return fmt.Errorf("a sample needs stream, id and outcome, it has %q, %q and %q", s.Stream, s.ID, s.Outcome)
	}
	return nil
}

func checkEvent(e *Event) error {
	if e.Kind == "" || e.Source == "" {
		return fmt.Errorf("an event needs kind and source, it has %q and %q", e.Kind, e.Source)
	}
	return nil
}

func checkFrame(f *Frame) error {
	if f.Kind == "" || f.Stream == (flow.Stream{}) {
		return fmt.Errorf("a frame needs kind and stream, it has %q and %q", f.Kind, f.Stream)
	}
	return nil
}

func checkEntry(e *Entry) error {
	if e.ID == "" || (e.Step != Begin && e.Step != Done) {
		return fmt.Errorf("a ledger entry needs an id and a step of %q or %q, it has %q and %q", Begin, Done, e.ID, e.Step)
	}
	return nil
}

// spool is one plain file of a history.
type spool struct {
	mu     sync.Mutex
	file   *os.File
	lines  int
	closed bool
	err    error
}

func openSpool(path string) (*spool, error) {
	const occupied = "%s is there already: a history is never written over, give an empty directory"
	if _, err := os.Stat(path + CompressedSuffix); err == nil {
		return nil, fmt.Errorf(occupied, path+CompressedSuffix)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf(occupied, path)
	}
	if err != nil {
		return nil, fmt.Errorf("a file of a history: %w", err)
	}
	return &spool{file: f}, nil
}

// write makes one write(2) of the line: a buffer would die with the process.
func (s *spool) write(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.closed {
		return fmt.Errorf("%s: a record came after the end of its history: %w", s.file.Name(), os.ErrClosed)
	}
	if _, err := s.file.Write(line); err != nil {
		s.err = fmt.Errorf("the history ends here: %w", err)
		return s.err
	}
	s.lines++
	return nil
}

func (s *spool) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.file.Close(); err != nil {
		return errors.Join(s.err, err)
	}
	return errors.Join(s.err, compress(s.file.Name()))
}

// compress replaces the file by its compressed form. At each instant one of
// the two is there, whole.
func compress(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("compressing %s, which stays: %w", path, err)
		}
	}()
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	temp := path + CompressedSuffix + ".tmp"
	out, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(encodeZstd(out, in), out.Sync(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, path+CompressedSuffix); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return os.Remove(path)
}

func encodeZstd(out io.Writer, in io.Reader) error {
	// One goroutine: scenarios that still run beside this one need the cores.
	// Zero frames: an empty history is not the same as a file cut at zero.
	enc, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true))
	if err != nil {
		return err
	}
	_, err = io.Copy(enc, in)
	return errors.Join(err, enc.Close())
}
