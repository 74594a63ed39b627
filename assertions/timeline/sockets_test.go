// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"testing"
)

// Sockets are read as they were written, sorted.
func TestSocketsAreReadAsTheyWereWritten(t *testing.T) {
	one := Socket{Inode: 7, State: "close-wait", Local: "[fd00::1]:80"}
	two := Socket{Inode: 1 << 33, State: "established", Local: "127.0.0.1:9"}
	text := ListSockets([]Socket{two, one})
	if want := "7/close-wait/[fd00::1]:80 8589934592/established/127.0.0.1:9"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if got := (Event{Attrs: map[string]string{"sockets": text}}).Held(); !slices.Equal(got, []Socket{one, two}) {
		t.Errorf("%+v", got)
	}
	if got := (Event{}).Held(); got != nil {
		t.Errorf("no socket is %+v", got)
	}
}
