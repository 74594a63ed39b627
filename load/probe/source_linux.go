// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// portAtConnect lets a bound socket get its port when its destination is known
// (ip(7), IP_BIND_ADDRESS_NO_PORT): it may be one that is in use for another.
func portAtConnect(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	return errors.Join(err, set)
}
