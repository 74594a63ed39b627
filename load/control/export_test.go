// SPDX-License-Identifier: Apache-2.0

package control

// Unfollowed is an agent that answers, and whose history nobody follows any more.
func Unfollowed(c *Client) *Attached {
	a := &Attached{Client: c, cancel: func() {}, done: make(chan struct{})}
	close(a.done)
	return a
}
