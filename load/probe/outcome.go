// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// outcome classifies an error of the socket or of what was read from it. The
// caller knows about phases: it has turned a FIN within a header or a body
// into io.ErrUnexpectedEOF.
func outcome(err error) timeline.Outcome {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if o, ok := errnos[errno]; ok {
			return o
		}
	}
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return timeline.Cancelled
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return timeline.Timeout
	case errors.Is(err, io.ErrUnexpectedEOF):
		return timeline.Truncated
	case errors.Is(err, io.EOF):
		return timeline.Closed
	default:
		return timeline.Malformed
	}
}

var errnos = map[syscall.Errno]timeline.Outcome{
	syscall.ECONNREFUSED: timeline.Refused,
	syscall.EHOSTUNREACH: timeline.NoRoute,
	syscall.ENETUNREACH:  timeline.NoRoute,
	syscall.EHOSTDOWN:    timeline.NoRoute,
	syscall.ENETDOWN:     timeline.NoRoute,
	syscall.EACCES:       timeline.NoRoute, // a route of type prohibit, or ICMP "administratively prohibited"
	syscall.EPERM:        timeline.NoRoute, // a local packet filter
	syscall.EINVAL:       timeline.NoRoute, // connect over a route of type blackhole
	syscall.ECONNRESET:   timeline.Reset,
	syscall.ECONNABORTED: timeline.Reset,
	syscall.EPIPE:        timeline.Reset,
	syscall.ETIMEDOUT:    timeline.Timeout,
	// This machine has run out of something: the generator's own fault,
	// and no evidence of anything.
	syscall.EADDRNOTAVAIL: timeline.Cancelled, // of ports, mostly
	syscall.EMFILE:        timeline.Cancelled,
	syscall.ENFILE:        timeline.Cancelled,
	syscall.ENOBUFS:       timeline.Cancelled,
	syscall.ENOMEM:        timeline.Cancelled,
}

// dialOutcome classifies an error of connecting. What has no class there is
// the generator's own: the peer can't break a protocol that isn't spoken yet.
func dialOutcome(err error) timeline.Outcome {
	if o := outcome(err); o != timeline.Malformed {
		return o
	}
	return timeline.Cancelled
}
