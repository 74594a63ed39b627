// SPDX-License-Identifier: Apache-2.0

package behaviour

// For tests that need the whole catalogue, which imports this package.
const SteadyRun = steadyRun

var InBaseline = baseline
