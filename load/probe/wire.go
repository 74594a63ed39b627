// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// wire is a connection to the system.
type wire interface {
	net.Conn
	// peek looks at what has arrived, without waiting and without taking it.
	peek() state
}

// state is what an idle connection says.
type state int

const (
	fresh  state = iota // nothing has arrived
	unread              // something has arrived that nobody has read
	stale               // it is over
)

// near is a wire with nothing between the client and the kernel.
type near struct {
	*net.TCPConn
	rc syscall.RawConn
}

// peek goes by Control, since another goroutine may be blocked in a read.
func (c *near) peek() state {
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
	nc, err := d.DialTCP(ctx, "tcp", netip.AddrPort{}, s.addr)
	if delay == 0 {
		if err != nil {
			return nil, err
		}
		// SyscallConn fails for a closed connection only.
		rc, _ := nc.SyscallConn()
		return &near{nc, rc}, nil
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
