// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lookEvery is how often the state of a connection is looked at that nobody reads.
const lookEvery = 50 * time.Millisecond

// The states of TCP (include/net/tcp_states.h) that are looked at.
const (
	established = 1
	closed      = 7
)

// awaitEnd waits until the other side of a connection has ended it, which is not read: that is left
// to the kernel, and seen in the connection's state. The error says how it was ended.
func awaitEnd(ctx context.Context, c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		var state uint8
		var looked error
		err := raw.Control(func(fd uintptr) {
			var info *unix.TCPInfo
			if info, looked = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); looked == nil {
				state = info.State
			}
		})
		switch {
		case errors.Join(err, looked) != nil:
			return errors.Join(err, looked)
		case state == closed:
			return syscall.ECONNRESET
		case state != established:
			return io.ErrUnexpectedEOF // a FIN, and what was said before it nobody knows
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
