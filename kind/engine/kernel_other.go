// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

// prepareKernel has nothing to prepare: eligible has refused this system.
func (s *setup) prepareKernel() error { return nil }
