// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/work"
)

// h1 speaks HTTP/1.1 over a connection of its own.
type h1 struct {
	nc   wire // of ear, or in TLS over it
	ear  *ear
	kept bool  // it is used again, or held
	end  error // that reading ended with
	br   *bufio.Reader
	kill func() bool // undoes the hold of the stream's context

	asked   atomic.Bool // what comes next is an answer
	next    chan coming // set: somebody reads what comes next
	readers sync.WaitGroup
}

// coming is when the next byte came, or why none did.
type coming struct {
	at  time.Duration
	err error
}

var buffered = sync.Pool{New: func() any { return bufio.NewReader(nil) }}

func newH1(ctx context.Context, nc wire, e *ear, kept bool) *h1 {
	c := &h1{
		nc: nc, ear: e, kept: kept, br: buffered.Get().(*bufio.Reader),
		kill: context.AfterFunc(ctx, func() { _ = nc.Close() }),
	}
	c.br.Reset(c)
	return c
}

// Read reads from the socket, for br only, and notes how that ended.
func (c *h1) Read(p []byte) (int, error) {
	n, err := c.nc.Read(p)
	if err != nil {
		c.end = err
	}
	return n, err
}

// listen reads the next byte before anybody asks for it, so that the end of an
// idle connection is heard when it comes.
func (c *h1) listen() {
	_ = c.nc.SetDeadline(time.Time{})
	c.asked.Store(false)
	next := make(chan coming, 1)
	c.next = next
	c.readers.Go(func() {
		_, err := c.br.Peek(1)
		at := timeline.Monotonic()
		if !c.asked.Load() {
			// Nothing may arrive unasked: not even an answer (a 408, say) can
			// be used.
			c.ear.leave()
		}
		next <- coming{at, err}
	})
}

// first waits for the next byte.
func (c *h1) first() coming {
	if next := c.next; next != nil {
		c.next = nil
		return <-next
	}
	_, err := c.br.Peek(1)
	return coming{timeline.Monotonic(), err}
}

func (c *h1) drain() bool {
	c.readers.Go(func() {
		c.first()
		_ = c.nc.SetDeadline(time.Time{})
		_, _ = io.Copy(io.Discard, c.br)
	})
	return true
}

func (c *h1) close() {
	c.kill()
	_ = c.nc.Close()
	c.readers.Wait()
	c.br.Reset(nil)
	buffered.Put(c.br)
}

// reply is the header of a final answer, and when its first byte came.
type reply struct {
	resp  *http.Response
	first time.Duration
	err   error
}

func (c *h1) try(ctx context.Context, a *attempt) fate {
	c.asked.Store(true)
	deadline, _ := ctx.Deadline()
	if err := c.nc.SetDeadline(deadline); err != nil {
		a.fail(outcome(err), err)
		return drop
	}
	if try := a.stream.client.try; try != nil && !a.Brief { // which is a GET
		return try(c, ctx, a)
	}
	w := &stamped{w: c.nc}
	if _, err := w.Write(a.header()); err != nil {
		a.fail(outcome(err), err)
		return drop
	}
	a.Sent = w.at
	a.Phase = timeline.PhaseFirstByte
	return c.answer(a, c.await(get, nil))
}

// The requests that an answer is read for: only their methods matter.
var (
	get  = &http.Request{Method: http.MethodGet}
	post = &http.Request{Method: http.MethodPost}
)

// upload sends a body while it listens for the answer, which may come early.
func (c *h1) upload(ctx context.Context, a *attempt) fate {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	goOn := make(chan struct{})
	replied := make(chan reply, 1)
	go func() {
		replied <- c.await(post, sync.OnceFunc(func() { close(goOn) }))
		cancel()
	}()
	w := &stamped{w: c.nc}
	sendErr := c.send(ctx, a, w, goOn)
	if sendErr == nil {
		a.Sent = w.at
		a.Phase = timeline.PhaseFirstByte
	}
	// The answer, the connection's end, or the deadline that both share.
	r := <-replied
	r.err = because(r.err, sendErr)
	if fate := c.answer(a, r); sendErr == nil {
		return fate
	}
	return drop
}

// because is why a connection ended to which somebody wrote while it was read: the write
// may have taken the socket's error, and left an EOF to the read.
func because(read, written error) error {
	if errors.Is(read, io.EOF) && outcome(written) == timeline.Reset {
		return written
	}
	return read
}

// stamped notes when its last write began: the answer can be there before
// that write returns.
type stamped struct {
	w  io.Writer
	at time.Duration
}

func (s *stamped) Write(p []byte) (int, error) {
	s.at = timeline.Monotonic()
	return s.w.Write(p)
}

func (c *h1) send(ctx context.Context, a *attempt, w io.Writer, goOn <-chan struct{}) error {
	if _, err := w.Write(a.header()); err != nil {
		return err
	}
	if a.form().awaits {
		select {
		case <-goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return c.body(ctx, a, w)
}

// body sends what comes behind the header.
func (c *h1) body(ctx context.Context, a *attempt, w io.Writer) error {
	send := work.Send
	if a.form().drips {
		send = work.Drip
	}
	_, err := send(ctx, w, a.ID, a.form().bytes, a.form().paced)
	return err
}

// await reads the header of the final answer. goOn is called at 100 Continue.
func (c *h1) await(req *http.Request, goOn func()) reply {
	for {
		next := c.first()
		if next.err != nil {
			return reply{err: next.err}
		}
		first := next.at
		resp, err := http.ReadResponse(c.br, req) //nolint:bodyclose // whoever takes the reply reads its body to the end, and closes the connection
		if err != nil {
			return reply{first: first, err: c.cut(err)}
		}
		switch {
		case resp.StatusCode == http.StatusContinue && goOn != nil:
			goOn()
		case resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols:
			return reply{resp: resp, first: first}
		}
	}
}

// cut says that a header is not malformed but incomplete: its parser sees only
// the line that the connection ended in.
func (c *h1) cut(err error) error {
	switch {
	case c.end == nil || c.br.Buffered() > 0:
		return err
	case errors.Is(c.end, io.EOF):
		return fmt.Errorf("the connection ended within the header: %w", io.ErrUnexpectedEOF)
	default:
		return c.end
	}
}

// answer reads the body of an answer and ends the attempt.
func (c *h1) answer(a *attempt, r reply) fate {
	a.First = r.first
	if r.err != nil {
		a.fail(outcome(r.err), r.err)
		return drop
	}
	a.LastOnConn = r.resp.Close
	toEOF := r.resp.ContentLength < 0 && len(r.resp.TransferEncoding) == 0
	if err := a.read(r.resp, toEOF); err != nil {
		if a.Outcome == "" {
			a.fail(outcome(err), err)
		}
		return drop
	}
	switch {
	case r.resp.Close:
		return closing
	case c.br.Buffered() > 0:
		return drop
	}
	if c.kept {
		c.listen()
	}
	return keep
}
