// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window bounds what may be under way in one direction of a far connection,
// in bytes: a megabyte each 80 ms at a delay of 20 ms.
const window = 256 << 10

// lastBytes bounds how long, after a far connection's close has reached the
// kernel, what was written before it may take to get there.
const lastBytes = 5 * time.Second

// far is a connection whose other end is further away than the kernel is.
// What the client writes, and its FIN, reach the kernel delay later, in
// order. What the kernel receives, FIN and RST included, reaches the client
// delay later: what came less than delay ago has not come yet.
type far struct {
	nc    lingering
	delay time.Duration

	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each change
	in, out flight
	// What reads and writes end with, as the client sees it.
	readEnd, writeEnd ending
	readBy, writeBy   time.Time // the client's deadlines
	// half is when the client's end of its half reaches the kernel, and closing
	// when its close does; 0: it has made none.
	half, closing time.Time
	reset         bool // the close is an RST
}

// lingering is what far asks of a *net.TCPConn, and of a stand-in in tests.
type lingering interface {
	net.Conn
	CloseWrite() error
	SetLinger(sec int) error
}

// piece is some bytes on their way, and when they arrive.
type piece struct {
	due  time.Time
	data []byte
}

// flight is what is on its way in one direction.
type flight struct {
	pieces []piece
	bytes  int
}

func (f *flight) add(p piece) {
	f.pieces = append(f.pieces, p)
	f.bytes += len(p.data)
}

// next is when the first piece arrives, or zero.
func (f *flight) next() time.Time {
	if len(f.pieces) == 0 {
		return time.Time{}
	}
	return f.pieces[0].due
}

// take moves what has arrived to p, from one piece at most.
func (f *flight) take(p []byte, now time.Time) int {
	if !reached(f.next(), now) {
		return 0
	}
	head := &f.pieces[0]
	n := copy(p, head.data)
	head.data = head.data[n:]
	f.bytes -= n
	if len(head.data) == 0 {
		f.pieces[0] = piece{}
		f.pieces = f.pieces[1:]
	}
	return n
}

// ending is an error, and when the client sees it.
type ending struct {
	err error
	at  time.Time
}

// reached says whether an instant has come. The zero time never does.
func reached(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// first is the earliest of some instants.
func first(of ...time.Time) time.Time {
	var out time.Time
	for _, t := range of {
		if !t.IsZero() && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}

// newFar puts delay before a connection that was just opened. Its pumps end
// delay after Close.
func newFar(nc lingering, delay time.Duration, pumps *sync.WaitGroup) *far {
	f := &far{nc: nc, delay: delay, changed: make(chan struct{})}
	pumps.Go(f.send)
	pumps.Go(f.receive)
	return f
}

// change wakes all who wait. The lock is held.
func (f *far) change() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// await calls try, with the lock held, until it is done: now, after each
// change, and at the instant that it returns if it is not done.
func (f *far) await(try func(now time.Time) (done bool, next time.Time)) {
	for {
		f.mu.Lock()
		done, next := try(time.Now())
		if done {
			f.change()
		}
		changed := f.changed
		f.mu.Unlock()
		if done {
			return
		}
		var due <-chan time.Time
		if !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-changed:
		case <-due:
		}
	}
}

// Read implements net.Conn.
func (f *far) Read(p []byte) (n int, err error) {
	f.await(func(now time.Time) (bool, time.Time) {
		switch {
		case !f.closing.IsZero():
			err = net.ErrClosed
		case reached(f.readBy, now):
			err = os.ErrDeadlineExceeded
		case len(p) == 0:
		case reached(f.in.next(), now):
			n = f.in.take(p, now)
		case reached(f.readEnd.at, now):
			err = f.readEnd.err
		default:
			return false, first(f.readBy, f.in.next(), f.readEnd.at)
		}
		return true, time.Time{}
	})
	return n, err
}

// Write implements net.Conn. As with a socket, success says no more than that
// the bytes will be sent.
func (f *far) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		f.await(func(now time.Time) (bool, time.Time) {
			room := min(window-f.out.bytes, len(p)-n)
			switch {
			case !f.closing.IsZero():
				err = net.ErrClosed
			case reached(f.writeBy, now):
				err = os.ErrDeadlineExceeded
			case reached(f.writeEnd.at, now):
				err = f.writeEnd.err
			case !f.half.IsZero():
				err = syscall.EPIPE
			case room > 0:
				f.out.add(piece{now.Add(f.delay), bytes.Clone(p[n : n+room])})
				n += room
			default:
				return false, first(f.writeBy, f.writeEnd.at)
			}
			return true, time.Time{}
		})
	}
	return n, err
}

// CloseWrite ends the client's half. Its FIN comes behind what was written, and
// as with a socket success says no more than that it will be sent.
func (f *far) CloseWrite() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case !f.closing.IsZero():
		return net.ErrClosed
	case reached(f.writeEnd.at, now):
		return f.writeEnd.err
	case f.half.IsZero():
		f.half = now.Add(f.delay)
		f.change()
	}
	return nil
}

// Close implements net.Conn. It does not wait: the kernel hears of it delay
// later.
func (f *far) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closing.IsZero() {
		return net.ErrClosed
	}
	now := time.Now()
	f.closing = now.Add(f.delay)
	// So does a kernel: a close with bytes that nobody has read is an RST.
	f.reset = reached(f.in.next(), now)
	f.change()
	return f.nc.SetWriteDeadline(f.closing.Add(lastBytes))
}

// send hands to the kernel what the client has written, the end of its half, and
// its close.
func (f *far) send() {
	b := make([]byte, 4096)
	for halved := false; ; {
		n, over := 0, false
		f.await(func(now time.Time) (bool, time.Time) {
			if n = f.out.take(b, now); n > 0 {
				return true, time.Time{}
			}
			end := f.closing
			if !halved {
				end = first(f.half, f.closing)
			}
			over = reached(f.closing, now)
			return len(f.out.pieces) == 0 && reached(end, now), first(f.out.next(), end)
		})
		if n > 0 {
			if _, err := f.nc.Write(b[:n]); err != nil {
				f.sendFailed(err)
			}
			continue
		}
		if over {
			break
		}
		// It fails where the connection is over, which the read says.
		_ = f.nc.CloseWrite()
		halved = true
	}
	if f.reset {
		_ = f.nc.SetLinger(0)
	}
	_ = f.nc.Close()
}

func (f *far) sendFailed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writeEnd.err == nil {
		f.writeEnd = ending{err, time.Now().Add(f.delay)}
	}
	if errors.Is(err, syscall.ECONNRESET) && errors.Is(f.readEnd.err, io.EOF) {
		// The write took the socket's error, and left an EOF to the read: an
		// RST behind a FIN would have been EPIPE.
		f.readEnd.err = err
	}
	f.change()
}

// receive takes from the kernel what the client will read.
func (f *far) receive() {
	b := make([]byte, 4096)
	for {
		closed := false
		f.await(func(time.Time) (bool, time.Time) {
			closed = !f.closing.IsZero()
			return closed || f.in.bytes < window, time.Time{}
		})
		if closed {
			return
		}
		n, err := f.nc.Read(b)
		f.received(b[:n], err)
		if err != nil {
			return
		}
	}
}

func (f *far) received(p []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := time.Now().Add(f.delay)
	if len(p) > 0 {
		f.in.add(piece{at, bytes.Clone(p)})
	}
	switch {
	case errors.Is(err, io.EOF):
		if errors.Is(f.writeEnd.err, syscall.ECONNRESET) {
			err = f.writeEnd.err // see sendFailed
		}
		f.readEnd = ending{err, at}
	case err != nil:
		f.readEnd = ending{err, at}
		if f.writeEnd.err == nil {
			f.writeEnd = f.readEnd
		}
	}
	f.change()
}

func (f *far) peek() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case !f.closing.IsZero(), f.in.bytes == 0 && reached(f.readEnd.at, now):
		return stale
	case reached(f.in.next(), now):
		return unread
	default:
		return fresh
	}
}

// SetDeadline implements net.Conn.
func (f *far) SetDeadline(t time.Time) error { return f.setDeadlines(t, &f.readBy, &f.writeBy) }

// SetReadDeadline implements net.Conn.
func (f *far) SetReadDeadline(t time.Time) error { return f.setDeadlines(t, &f.readBy) }

// SetWriteDeadline implements net.Conn.
func (f *far) SetWriteDeadline(t time.Time) error { return f.setDeadlines(t, &f.writeBy) }

func (f *far) setDeadlines(t time.Time, of ...*time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closing.IsZero() {
		return net.ErrClosed
	}
	for _, d := range of {
		*d = t
	}
	f.change()
	return nil
}

// LocalAddr implements net.Conn.
func (f *far) LocalAddr() net.Addr { return f.nc.LocalAddr() }

// RemoteAddr implements net.Conn.
func (f *far) RemoteAddr() net.Addr { return f.nc.RemoteAddr() }

// pass waits for d, and says why it could not.
func pass(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
