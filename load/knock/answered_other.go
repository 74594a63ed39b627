// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package knock

import (
	"errors"
	"time"
)

// answered needs Linux.
func answered(Port, time.Time) error { return errors.ErrUnsupported }
