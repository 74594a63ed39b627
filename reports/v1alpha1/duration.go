// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that reads and writes as text, rounded to the
// microsecond: "1m2.5s", "340ms".
type Duration time.Duration

// D returns the plain duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).Round(time.Microsecond).String() }

// MarshalText writes the duration as Go does, rounded to the microsecond.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is no duration such as 3s or 250ms: %w", b, err)
	}
	*d = Duration(v)
	return nil
}
