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
