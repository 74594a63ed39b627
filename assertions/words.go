// SPDX-License-Identifier: Apache-2.0

package assertions

import "strconv"

// plural counts in words: 1 pod, 2 pods.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// deadPod is why nothing is judged of a pod that stopped accepting too early.
const deadPod = "of a pod that is dead nothing can be shown (see pod.accept-after-sigterm)"
