// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cli

import (
	"context"
	"errors"
	"io"

	"github.com/lastcall-dev/lastcall/fixtures/witness"
	"github.com/lastcall-dev/lastcall/load/control"
)

// nodeWatches needs Linux: pidfd and netlink.
func nodeWatches(*control.Server, *witness.Tail, string, io.Writer) []watch {
	return []watch{func(context.Context) error {
		return errors.New("a node can be watched on Linux only; use --collect elsewhere")
	}}
}
