// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// The limits of streams in a tunnel: that of a good peer, and that of one which takes few.
const (
	generous = 1000
	Few      = 4
)

// What a peer does, and for how long.
const (
	// TurnsAwayFor is how long one resets what dials it, and then how long it tells each tunnel to
	// go at once.
	TurnsAwayFor = 8 * time.Second
	// movesEvery is how often one tells the tunnels to go that it has.
	movesEvery = 4 * time.Second
	// notifiesEvery is how often one ends the tunnels that it has in TLS, and finAfter how long behind that below it.
	notifiesEvery = 1500 * time.Millisecond
	finAfter      = 6 * time.Second
	// cutsAfter is how long a stream has stood that is cut.
	cutsAfter = 700 * time.Millisecond
)

// How tunnels are turned away.
const (
	resets   = "resets"
	goesAway = "goes-away"
)

// manner is what a peer does from the disruption's begin on.
type manner struct {
	// begin does what is done by time.
	begin func(*Server)
	// refuses says how the nth CONNECT of a tunnel, counted from 1, is refused; "": it is not.
	refuses func(n int) string
	// cuts says how the nth stream of all is cut, in the middle of what it carries; "": it is not.
	cuts func(n int) string
}

// manners are those of all paths to peers of the suite's own.
var manners = map[flow.Path]manner{
	flow.PeerRefuses:   {refuses: refuses},
	flow.PeerLimits:    {begin: (*Server).takesFew},
	flow.PeerTurnsAway: {begin: (*Server).turnsAway},
	flow.PeerSilent:    {begin: (*Server).fallsSilent},
	flow.PeerCuts:      {cuts: cuts},
	flow.PeerMoves:     {begin: (*Server).moves},
	flow.PeerNotifies:  {begin: (*Server).notifies},
	flow.PeerHears:     {},
}

// refuses takes the first CONNECT of a tunnel, so that it is one that serves, refuses the third by
// RST_STREAM and the fifth by a GOAWAY that does not cover it, and so on.
func refuses(n int) string {
	switch n % 5 {
	case 3:
		return timeline.PeerByReset
	case 0:
		return timeline.PeerByGoAway
	}
	return ""
}

// cuts cuts each stream, and one in four with its tunnel, by each way in which such ends.
func cuts(n int) string {
	switch n % 12 {
	case 3:
		return timeline.PeerByRST
	case 7:
		return timeline.PeerByFIN
	case 11:
		return timeline.PeerByCloseNotify
	}
	return timeline.PeerByReset
}

// takesFew lowers the limit of the tunnels that stand, and of all to come.
func (s *Server) takesFew() {
	s.mu.Lock()
	s.limit = Few
	s.mu.Unlock()
	for _, t := range s.all() {
		t.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: Few})
	}
}

// turnsAway ends the tunnels that there are, and takes none for a while: it is as if a proxy were
// gone whose app goes on.
func (s *Server) turnsAway() {
	for _, phase := range []string{resets, goesAway, ""} {
		s.mu.Lock()
		s.turns = phase
		s.mu.Unlock()
		s.say(timeline.PeerPhase, map[string]string{"phase": phase})
		for _, t := range s.all() {
			t.goAway(0)
			t.end()
		}
		if phase == "" || !s.pause(TurnsAwayFor) {
			return
		}
	}
}

// fallsSilent has nothing more come out of the tunnels that stand, and reads nothing more, as a host
// that has died. Their kernel goes on: what is sent is acknowledged.
func (s *Server) fallsSilent() {
	for _, t := range s.all() {
		t.silence()
	}
}

// moves tells the tunnels that stand to go, again and again.
func (s *Server) moves() { s.toEach(movesEvery, (*tunnel).drain) }

// notifies ends its side of the tunnels that stand in TLS, again and again: those in which there is nothing at that moment.
func (s *Server) notifies() { s.toEach(notifiesEvery, (*tunnel).notify) }

// toEach does something to each tunnel that stands, now and again.
func (s *Server) toEach(every time.Duration, do func(*tunnel)) {
	for {
		for _, t := range s.all() {
			do(t)
		}
		if !s.pause(every) {
			return
		}
	}
}
