// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Socket is one TCP socket that a process holds, in an event of kind Sockets.
type Socket struct {
	Inode uint64
	// State is one of SocketStates, or of SocketsWithoutPeer.
	State string
	// Local is the socket's own address, host:port.
	Local string
}

// SocketStates are those in which a process can hold a socket to a peer, by their numbers in the
// kernel (include/net/tcp_states.h), and their names (ss(8)).
var SocketStates = map[uint8]string{
	1: "established", 4: "fin-wait-1", 5: "fin-wait-2", 8: "close-wait", 9: "last-ack", 11: "closing",
}

// SocketsWithoutPeer are the states of those that have none, or not yet, as SocketStates has them.
var SocketsWithoutPeer = map[uint8]string{2: "syn-sent", 3: "syn-recv", 10: SocketListens}

// SocketListens is the state of a listener.
const SocketListens = "listen"

// ListSockets writes sockets as the attribute of a Sockets event has them: one word each.
func ListSockets(all []Socket) string {
	all = slices.SortedFunc(slices.Values(all), func(a, b Socket) int { return cmp.Compare(a.Inode, b.Inode) })
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = strings.Join([]string{strconv.FormatUint(s.Inode, 10), s.State, s.Local}, "/")
	}
	return strings.Join(words, " ")
}

// Held are the sockets of a Sockets event.
func (e Event) Held() []Socket {
	var out []Socket
	for _, word := range strings.Fields(e.Attrs["sockets"]) {
		inode, rest, _ := strings.Cut(word, "/")
		state, local, _ := strings.Cut(rest, "/")
		// What is no number is inode 0: a socket without one is held by nobody.
		number, _ := strconv.ParseUint(inode, 10, 64)
		out = append(out, Socket{Inode: number, State: state, Local: local})
	}
	return out
}
