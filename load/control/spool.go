// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Spool is an agent's history on its own disk: JSON lines that are written
// first and sent afterwards, so that a broken connection costs nothing.
type Spool struct {
	id   string
	file *os.File

	mu      sync.Mutex
	size    int64
	err     error // the first error of Append: the history has a hole
	ended   bool
	changed chan struct{}
}

// NewSpool begins a new history in dir, which is made where it is missing.
func NewSpool(dir string) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the spool's folder: %w", err)
	}
	id := rand.Text()
	f, err := os.OpenFile(filepath.Join(dir, "spool-"+id+".jsonl"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("making the spool: %w", err)
	}
	return &Spool{id: id, file: f, changed: make(chan struct{})}, nil
}

// Append adds one record. After an error the history has a hole, and all who
// follow it are told.
func (s *Spool) Append(r timeline.Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a record: %w", err)
	}
	line = append(line, '\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errors.New("the spool has ended")
	}
	if s.err != nil {
		return s.err
	}
	// At the known size, so that a write that was cut short is not in the
	// middle of the history.
	if _, err := s.file.WriteAt(line, s.size); err != nil {
		s.err = fmt.Errorf("writing the spool: %w", err)
		s.wake()
		return s.err
	}
	s.size += int64(len(line))
	s.wake()
	return nil
}

// End says that nothing is added any more.
func (s *Spool) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		s.wake()
	}
}

// Size is how many bytes of whole lines it holds.
func (s *Spool) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Close frees the file, which stays.
func (s *Spool) Close() error {
	s.End()
	return s.file.Close()
}

func (s *Spool) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

type spoolState struct {
	size    int64
	err     error
	ended   bool
	changed <-chan struct{}
}

func (s *Spool) state() spoolState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return spoolState{s.size, s.err, s.ended, s.changed}
}

// heartbeat is an empty line when there is nothing to say, so that a
// connection that died without a word is noticed. It is no part of the spool.
const heartbeat = time.Second

// gather is how long records are gathered into one flush.
const gather = 20 * time.Millisecond

// follow writes the spool from an offset on, and goes on until it ends, stop
// is closed or the writer fails. flush is called at least every 200 ms when
// there is something to flush.
func (s *Spool) follow(w io.Writer, flush func() error, offset int64, stop <-chan struct{}) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		st := s.state()
		if st.size > offset {
			n, err := io.Copy(w, io.NewSectionReader(s.file, offset, st.size-offset))
			offset += n
			if err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
			wait.Reset(gather)
			select {
			case <-wait.C:
			case <-stop:
				return nil
			}
			continue
		}
		if st.err != nil {
			return st.err
		}
		if st.ended {
			return nil
		}
		select {
		case <-st.changed:
		case <-stop:
			return nil
		case <-beat.C:
			if _, err := w.Write([]byte{'\n'}); err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
		}
	}
}
