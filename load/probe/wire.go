// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// wire is a connection to the system.
type wire interface {
	net.Conn
	// CloseWrite ends the client's half.
	CloseWrite() error
	// peek looks at what has arrived, without waiting and without taking it.
	peek() state
}

// state is what an idle connection says.
type state int

const (
	fresh  state = iota // nothing has arrived
	unread              // something has arrived that nobody has read, or is being read
	stale               // it is over
)

// near is a wire with nothing between the client and the kernel. A socket has
// one error for an RST, and whoever comes first takes it: a look or a write
// would leave to the read an EOF, as if it had been a FIN.
type near struct {
	*net.TCPConn
	rc syscall.RawConn

	mu    sync.Mutex // of a look, and of a write
	taken error      // the RST that one of them took
}

// Read implements net.Conn.
func (c *near) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if errors.Is(err, io.EOF) {
		if rst := c.reset(); rst != nil {
			return n, rst
		}
	}
	return n, err
}

// Write implements net.Conn.
func (c *near) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.TCPConn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) {
		c.taken = err
	}
	return n, err
}

// reset is the RST that somebody else took, if an EOF was one.
func (c *near) reset() error {
	// A write that waits for a peer that reads no more may take long: it is
	// waited for only if it can't, since the socket is dead.
	if !c.mu.TryLock() {
		if !c.hungUp() {
			return nil
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	return c.taken
}

// hungUp says whether the socket is closed in both directions: so an RST leaves
// it, and a FIN does not.
func (c *near) hungUp() bool {
	polled := []unix.PollFd{{Events: unix.POLLOUT}}
	err := c.rc.Control(func(fd uintptr) {
		polled[0].Fd = int32(fd)
		_, _ = unix.Poll(polled, 0)
	})
	return err == nil && polled[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}

// peek goes by Control, since another goroutine may be blocked in a read.
func (c *near) peek() state {
	if !c.mu.TryLock() {
		return unread // whoever writes is busy with the connection, and so not idle
	}
	defer c.mu.Unlock()
	var (
		b   [1]byte
		n   int
		err error
	)
	if cerr := c.rc.Control(func(fd uintptr) {
		n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}); cerr != nil {
		return stale
	}
	if errors.Is(err, syscall.ECONNRESET) {
		c.taken = err
	}
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return fresh
	case err != nil || n == 0:
		return stale
	default:
		return unread
	}
}

// connect opens a wire of the stream. With a delay the SYN leaves that much
// late, and so does what comes of it reach the client.
func (s *stream) connect(ctx context.Context) (wire, error) {
	delay := s.Profile.Delay
	if err := pass(ctx, delay); err != nil {
		return nil, err
	}
	var d net.Dialer
	d.KeepAlive = -1
	d.KeepAliveConfig.Enable = false
	nc, err := s.open(ctx, &d)
	if delay == 0 {
		if err != nil {
			return nil, err
		}
		// SyscallConn fails for a closed connection only.
		rc, _ := nc.SyscallConn()
		return &near{TCPConn: nc, rc: rc}, nil
	}
	var w *far
	if err == nil {
		// At once, not when the client knows: the server may speak first.
		w = newFar(nc, delay, &s.pumps)
	}
	if late := pass(ctx, delay); late != nil {
		if w != nil {
			_ = w.Close()
		}
		return nil, late
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// open opens a connection from the stream's range, or from where the kernel has
// it. Without a range there is no bind: even to the zero address it takes a port
// from all destinations together, and where many wait for their end it looks for
// one for milliseconds of processor time.
func (s *stream) open(ctx context.Context, d *net.Dialer) (*net.TCPConn, error) {
	if s.from.IsValid() {
		return d.DialTCP(ctx, "tcp", s.source(d), s.addr)
	}
	c, err := d.DialContext(ctx, "tcp", s.dest)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// source is the address of the range that the next connection is dialled from.
func (s *stream) source(d *net.Dialer) netip.AddrPort {
	d.Control = portAtConnect
	at := s.from.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(at[:]) + s.dials.Add(1)%(1<<(32-s.from.Bits()))
	binary.BigEndian.PutUint32(at[:], n)
	return netip.AddrPortFrom(netip.AddrFrom4(at), 0)
}
