// SPDX-License-Identifier: Apache-2.0

package knock

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// answered connects once, and says why that was not answered. It is done by system calls on one thread: a
// thousand in a second by package net cost several times as much.
func answered(p Port, until time.Time) error {
	family, to := address(p.At)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("a socket: %w", err)
	}
	defer unix.Close(fd)
	if err = unix.Connect(fd, to); errors.Is(err, unix.EINPROGRESS) {
		err = wait(fd, unix.POLLOUT, until)
		if err == nil {
			err = failure(fd)
		}
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// What is over is to leave nothing behind here, neither in the kernel.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	if _, err := unix.Write(fd, p.Says); err != nil {
		return fmt.Errorf("connected: %w", err)
	}
	if err := wait(fd, unix.POLLIN, until); err != nil {
		return fmt.Errorf("connected, and not answered: %w", err)
	}
	n, err := unix.Read(fd, make([]byte, 1))
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return fmt.Errorf("connected, and not answered: %w", err)
	}
	return nil
}

// wait returns when a socket can be read, or written, or has failed.
func wait(fd int, what int16, until time.Time) error {
	for {
		left := time.Until(until)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: what}}, int(left/time.Millisecond)+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
	}
}

// failure is why a socket could not connect.
func failure(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && n != 0 {
		err = unix.Errno(n)
	}
	return err
}

func address(a netip.AddrPort) (family int, to unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
