// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// ear is the wire of a connection as its protocols use it. It hears how the
// peer ends the connection, whoever is reading just then.
type ear struct {
	wire
	*teller

	// stale is closed when no further request may be sent, and ended when the
	// socket is over: after a FIN or an RST.
	stale, ended         chan struct{}
	staleOnce, endedOnce sync.Once

	reading atomic.Bool // somebody waits for what comes next
	fin     atomic.Bool
	cut     atomic.Bool // an RST has come: what reads as the end behind it is none

	restMu          sync.Mutex
	closed, resting bool
}

func newEar(w wire, t *teller) *ear {
	return &ear{wire: w, teller: t, stale: make(chan struct{}), ended: make(chan struct{})}
}

// Read implements net.Conn.
func (e *ear) Read(p []byte) (int, error) {
	e.reading.Store(true)
	n, err := e.wire.Read(p)
	e.reading.Store(false)
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case errors.Is(err, io.EOF) && e.cut.Load():
	case errors.Is(err, io.EOF):
		e.fin.Store(true)
		e.tell(timeline.FrameFIN)
	case outcome(err) == timeline.Reset:
		e.broken()
	}
	e.finish()
	return n, err
}

// broken tells of an RST. The kernel says ECONNRESET once, to whoever asks first,
// and the end of the stream to everybody after.
func (e *ear) broken() {
	e.cut.Store(true)
	e.tell(timeline.FrameRST)
}

// Write implements net.Conn. EPIPE says nothing new: an RST that answers to
// this side's writing, after the peer's FIN.
func (e *ear) Write(p []byte) (int, error) {
	n, err := e.wire.Write(p)
	if errors.Is(err, syscall.ECONNRESET) {
		e.broken()
		e.finish()
	}
	return n, err
}

// Close implements net.Conn.
func (e *ear) Close() error {
	e.restMu.Lock()
	e.closed = true
	e.restMu.Unlock()
	return e.wire.Close()
}

// leave says that the connection can't carry another request.
func (e *ear) leave() { e.staleOnce.Do(func() { close(e.stale) }) }

func (e *ear) finish() {
	e.leave()
	e.endedOnce.Do(func() { close(e.ended) })
}

// rest reads what nobody wants, up to the connection's end, so that it is heard.
// It does so at most once, in a goroutine of run.
func (e *ear) rest(run func(func())) {
	e.restMu.Lock()
	defer e.restMu.Unlock()
	if e.closed || e.resting {
		return
	}
	e.resting = true
	run(func() { _, _ = io.Copy(io.Discard, e) })
}

// done says whether a channel is closed.
func done(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
