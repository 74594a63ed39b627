// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/work"
)

// talk carries one opaque stream: load/work, talk.go.
type talk struct {
	ear *ear
	br  *bufio.Reader
	// kill undoes the hold of the stream's context.
	kill func() bool
}

func newTalk(s *stream, l *link) conn {
	c := &talk{
		ear: l.ear, br: buffered.Get().(*bufio.Reader),
		kill: context.AfterFunc(s.ctx, func() { _ = l.ear.Close() }),
	}
	c.br.Reset(l.ear)
	return c
}

// drain has nothing to do: the stream was the connection.
func (c *talk) drain() bool { return false }

func (c *talk) close() {
	c.kill()
	_ = c.ear.Close()
	c.br.Reset(nil)
	buffered.Put(c.br)
}

// try does not say a byte before the server has.
func (c *talk) try(ctx context.Context, a *attempt) fate {
	a.Want = a.stream.form.bytes
	a.Phase = timeline.PhaseFirstByte
	deadline, _ := ctx.Deadline()
	if err := c.ear.SetDeadline(deadline); err != nil {
		a.fail(outcome(err), err)
		return drop
	}
	g, err := work.ReadGreeting(c.br)
	if err != nil {
		a.fail(outcome(err), err)
		return drop
	}
	a.First = timeline.Monotonic()
	a.answeredBy(g.Pod, g.Peer)
	a.Phase = timeline.PhaseBody

	return a.stream.client.talk(c, ctx, a)
}

// echoed says what comes back, and judges it.
func (c *talk) echoed(ctx context.Context, a *attempt) fate {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan time.Duration, 1)
	go func() {
		at, _ := c.send(ctx, work.Request{ID: a.ID, Bytes: a.Want}, a.stream.Profile.Takes)
		sent <- at
	}()
	wrong, err := c.receive(a)
	switch {
	case wrong != nil:
		// However it ended: what was wrong by then stays wrong.
		a.fail(timeline.Corrupt, errors.Join(wrong, err))
	case err != nil:
		a.fail(outcome(err), err)
	default:
		a.Phase, a.Outcome, a.End = timeline.PhaseDone, timeline.OK, timeline.Monotonic()
	}
	if a.Failed() {
		// Whoever still writes is let go.
		cancel()
		_ = c.ear.SetWriteDeadline(time.Unix(1, 0))
	}
	// What is sent after the outcome is no part of the attempt.
	if at := <-sent; at <= a.End {
		a.Sent = at
	}
	return drop
}

// heard says all that there is to say to a server that has ended its half. What came
// of it only the server's ledger knows: here it is over when both sides have ended.
func (c *talk) heard(ctx context.Context, a *attempt) fate {
	var end error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, end = c.br.ReadByte()
	}()
	at, err := c.send(ctx, work.Request{ID: a.ID, Bytes: a.Want, Word: work.Hear}, a.stream.Profile.Takes)
	if err != nil {
		a.fail(outcome(err), err)
		_ = c.ear.SetReadDeadline(time.Unix(1, 0)) // nobody waits for its end any more
		<-ended
		return drop
	}
	<-ended
	a.Sent = at
	switch {
	case end == nil:
		a.fail(timeline.Corrupt, errors.New("bytes from a server that had nothing to say"))
	case !errors.Is(end, io.EOF):
		a.fail(outcome(end), end)
	default:
		a.Phase, a.Outcome, a.Got, a.End = timeline.PhaseDone, timeline.OK, a.Want, timeline.Monotonic()
	}
	return drop
}

// send says the client's part, and says when it ended it. Why it could not, the
// reading side of a talk meets too.
func (c *talk) send(ctx context.Context, req work.Request, takes time.Duration) (time.Duration, error) {
	if _, err := io.WriteString(c.ear, req.String()); err != nil {
		return 0, err
	}
	if _, err := work.Send(ctx, c.ear, req.ID, req.Bytes, takes); err != nil {
		return 0, err
	}
	at := timeline.Monotonic()
	return at, c.ear.CloseWrite()
}

// receive reads the body's echo, the trailer and the FIN, and says what of them
// is not what it should be. An error is one of reading.
func (c *talk) receive(a *attempt) (wrong, err error) {
	wrong, err = a.compare(io.LimitReader(c.br, a.Want))
	switch {
	case wrong != nil || err != nil:
		return wrong, err
	case a.Got < a.Want:
		return nil, errShort
	}
	t, err := work.ReadTrailer(c.br)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the connection ended before the trailer: %w", io.ErrUnexpectedEOF)
	case err != nil && outcome(err) == timeline.Malformed:
		return fmt.Errorf("more bytes than were sent, or other ones: %w", err), nil
	case err != nil:
		return nil, err
	case t.Bytes != a.Want:
		return fmt.Errorf("the backend received %d bytes, %d were sent", t.Bytes, a.Want), nil
	}
	if sum := work.Sum(a.ID, a.Want); t.SHA256 != sum {
		return fmt.Errorf("the backend received bytes with SHA-256 %s, want %s", t.SHA256, sum), nil
	}
	if _, err := c.br.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			return errors.New("more bytes behind the trailer"), nil
		}
		return nil, err
	}
	return nil, nil
}
