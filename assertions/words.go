// SPDX-License-Identifier: Apache-2.0

package assertions

import "strconv"

// Plural counts in words: 1 pod, 2 pods.
func Plural(n int, one, many string) string { return plural(n, one, many) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// atOneInstant is the reason of a floor for what is in flight at one.
const atOneInstant = "what is in flight at one instant is rate times duration, not a count over a window"

// keptUncounted is why new connections are counted only.
func keptUncounted(per string) Floor {
	return Floor{
		Per: per, Name: "requests on kept connections", N: 0,
		Reason: "as in pod.accept-after-sigterm: a conformant server ends its kept connections from D on",
	}
}

// deadPod is why nothing is judged of a pod that stopped accepting too early.
const deadPod = "of a pod that is dead nothing can be shown (see pod.accept-after-sigterm)"
