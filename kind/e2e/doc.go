// SPDX-License-Identifier: Apache-2.0

// Package e2e has no code: its test is a suite of e2e-framework as anyone would write it,
// with a cluster of package kind's.
package e2e
