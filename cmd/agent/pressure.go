// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/control"
)

// pressure makes closed-loop load with fortio.
type pressure struct{}

func (pressure) Press(context.Context, control.Pressure) (timeline.Event, error) {
	return timeline.Event{}, errors.New("this build makes no pressure yet")
}
