// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kind

import (
	"net/netip"

	"github.com/lastcall-dev/lastcall/kind/egress"
)

func hostPrefixes() ([]netip.Prefix, error) { return nil, egress.ErrRights }

// OuterInterfaces returns egress.ErrRights: it needs Linux.
func OuterInterfaces() ([]string, error) { return nil, egress.ErrRights }

func removeBridges() ([]string, error) { return nil, egress.ErrRights }
