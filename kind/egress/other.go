// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package egress

import (
	"context"
	"net/netip"
)

// Check returns ErrRights: the guard needs Linux.
func Check() error { return ErrRights }

// Install returns ErrRights: the guard needs Linux.
func Install(context.Context, Config) (*Guard, error) { return nil, ErrRights }

// Open returns ErrRights: the guard needs Linux.
func Open(Config) (*Guard, error) { return nil, ErrRights }

// Remove returns ErrRights: the guard needs Linux.
func Remove(context.Context, string) (bool, error) { return false, ErrRights }

// Standing returns ErrRights: the guard needs Linux.
func Standing(string) ([]string, error) { return nil, ErrRights }

// Counters returns ErrRights: the guard needs Linux.
func (g *Guard) Counters(context.Context) (Counters, error) { return Counters{}, ErrRights }

func routed(netip.Addr) bool { return true }

// Capture needs Linux.
type Capture struct{}

// StartCapture returns ErrRights: a capture needs Linux.
func StartCapture(string, []netip.Prefix) (*Capture, error) { return nil, ErrRights }

// Stop returns ErrRights: a capture needs Linux.
func (c *Capture) Stop() (Captured, error) { return Captured{}, ErrRights }
