// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"
)

// What changed while the kernel told of it is asked for again, and no other error is; one that always changes is an error.
func TestWhole(t *testing.T) {
	other := errors.New("no such family")
	for name, tc := range map[string]struct {
		said  []error // of each time that it is asked, the last one for all that come
		asked int
		err   error
	}{
		"whole at once":    {[]error{nil}, 1, nil},
		"interrupted once": {[]error{fmt.Errorf("dump: %w", netlink.ErrDumpInterrupted), nil}, 2, nil},
		"another error":    {[]error{other}, 1, other},
		"always":           {[]error{netlink.ErrDumpInterrupted}, dumps, netlink.ErrDumpInterrupted},
	} {
		asked := 0
		all, err := whole(func() ([]int, error) {
			asked++
			return []int{asked}, tc.said[min(asked, len(tc.said))-1]
		})
		if asked != tc.asked || !errors.Is(err, tc.err) || all[0] != asked {
			t.Errorf("%s: asked %d times, and got %v, %v", name, asked, all, err)
		}
	}
}
