// SPDX-License-Identifier: Apache-2.0

package host

import "golang.org/x/sys/unix"

// kernel is this host's, as uname -r says it.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
