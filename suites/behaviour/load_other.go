// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package behaviour

// loadAverage is not read outside Linux: the report shows 0.
func loadAverage() float64 { return 0 }

// cpuTime is known on Linux only.
func cpuTime() (busy, stolen, all float64) { return 0, 0, 0 }

func waitedTime() float64 { return 0 }

func ownMachine() bool { return false }
