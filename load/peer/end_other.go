// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package peer

import (
	"context"
	"errors"
	"net"
)

// awaitEnd can't be done here.
func awaitEnd(ctx context.Context, _ *net.TCPConn) error {
	<-ctx.Done()
	return errors.ErrUnsupported
}
