// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/fortio"
)

// pressure makes closed-loop load with fortio.
type pressure struct{}

func (pressure) Press(ctx context.Context, p control.Pressure) (timeline.Event, error) {
	return fortio.Run(ctx, fortio.Spec{
		Name: p.Name, Addr: p.Addr, Conns: p.Conns, QPS: p.QPS,
		Duration: time.Duration(p.Seconds * float64(time.Second)),
	})
}
