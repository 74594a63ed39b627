// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package behaviour

// loadAverage is not read outside Linux: the report shows 0.
func loadAverage() float64 { return 0 }

// busy is known on Linux only.
func busy() float64 { return 0 }

// stolen is known on Linux only.
func stolen() (seconds, of float64) { return 0, 0 }
