// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"math"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// lasting are connections in tunnels of our own client's, whose certificate is good for longer than any recording.
var lasting = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Shared, Op: flow.Slow, Takes: 5 * time.Second}, Rate: 2}

// Of a revocation nothing is shown here: no list of revoked certificates is handed to anybody.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.revoked",
	Title: "A client whose certificate runs out and is not renewed is cut, visibly, and nobody else is",
	Level: spec.May,
	Refs: []spec.Ref{{
		Doc: "project", Section: "design", Quote: "A peer whose certificate is revoked, or runs out and is not renewed, is cut so that both sides see it; its neighbours in the same proxy live.",
	}, {
		Doc: "project", Section: "after ztunnel pull request 1986", URL: "https://github.com/istio/ztunnel/pull/1986",
		Quote: "a revoked cert could keep serving an existing connection until it closes",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Certificates of a mesh are good for an hour or a day, so that who has lost the right to one is soon nobody any more. TLS looks at them when a tunnel begins. A tunnel lasts for as long as there is something in it, so one long stream keeps open for days what was to be shut in an hour, and each new connection goes into it too.",
	Causes: "Certificates that are looked at in the handshake alone. Or the other way round, a proxy that ends each tunnel with the certificate that it began with: then each renewal cuts the long streams of all.",
	Fix:    "Note until when a peer's certificate is good, and look again then: cut its streams by RST_STREAM and its tunnels by GOAWAY and close_notify, unless the same peer has shown another one since, in another tunnel. Where yours is renewed, open new tunnels with it before the old one runs out, and let what is in the old ones end by itself.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{aside, lasting, behaviour.RunningOut, behaviour.Renewing, behaviour.Renewed},
	Checks:     []assertions.Check{CutsWithCertificate(), KeepsOthers()},
	BrokenBy:   []spec.Fault{datapath.OutlivesCertificates, datapath.CutsAtNotAfter, datapath.EndsAtNotAfter},
	Resolution: 60 * time.Millisecond,
})

const (
	// revokedWithin is how long after its peer's certificate a tunnel may stand.
	revokedWithin = time.Second
	// sameInstant is how far apart two clocks may be, and two events, that are told of one instant.
	sameInstant = 100 * time.Millisecond
)

// runsOut is when the certificate of a flow's client ran out. That it never did is a doubt.
func runsOut(y *assertions.Tally, c assertions.Case, f flow.Flow) (at time.Duration, who string, ok bool) {
	for _, e := range c.Timeline.EventsOf(timeline.CertificateEnds, "") {
		if e.Attrs["flow"] == f.String() {
			return e.At, e.Subject, true
		}
	}
	y.Doubt("nothing says that a certificate has run out")
	return 0, "", false
}

// tunnelsOf are those of a flow.
func tunnelsOf(c assertions.Case, f flow.Flow) []tunnel.Tunnel {
	var out []tunnel.Tunnel
	for _, k := range tunnel.Of(c, func(string) bool { return true }) {
		if k.Stream.Flow() == f {
			out = append(out, k)
		}
	}
	return out
}

// underway says whether something of a connection had come by an instant, and it was not over then.
func underway(s timeline.Sample, at time.Duration) bool {
	return s.First > 0 && s.First < at-sameInstant && s.End > at-sameInstant
}

// ofCertificate says when something was, on the clock of a certificate's end.
func ofCertificate(at, end time.Duration) string {
	if at < end {
		return fmt.Sprintf("%s before the certificate ran out", (end - at).Round(time.Millisecond))
	}
	return fmt.Sprintf("certificate's end + %s", (at - end).Round(time.Millisecond))
}

// CutsWithCertificate judges what becomes of the tunnels of a client, and of what is in them, when its certificate runs out and
// it has shown no other one.
func CutsWithCertificate() assertions.Check {
	stood := assertions.Floor{Name: "tunnels of a client that stood when its certificate ran out, and with it all that it had shown", N: 1,
		Reason: "our own client has two to an instance"}
	cut := assertions.Floor{Name: "connections in these that would have gone on for longer", N: 5,
		Reason: "two begin in a second, and take 6 s each"}
	return assertions.Check{
		Name:     "tunnels of a client whose certificate has run out",
		Expected: fmt.Sprintf("each is cut within %s, and each connection in it, by RST_STREAM or with its tunnel, and none by END_STREAM, as if that were all; and the app's work on it ends within %s", revokedWithin, revokedWithin),
		Floors:   []assertions.Floor{stood, cut},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			end, who, ok := runsOut(&y, c, behaviour.RunningOut.Flow)
			var all []tunnel.Tunnel
			if ok {
				all = tunnelsOf(c, behaviour.RunningOut.Flow)
			}
			done := c.Timeline.EntriesOf(timeline.Done)
			tunnels, streams := 0, 0
			ways := map[timeline.FrameKind]int{}
			var slowest time.Duration
			for _, k := range all {
				for _, s := range k.Samples {
					if cutWith(&y, c, done, k, s, end) {
						streams++
						slowest = max(slowest, s.End-end)
					}
				}
				if !k.StoodAt(end - sameInstant) {
					continue
				}
				tunnels++
				limit := end + revokedWithin
				if over, gone := goneAt(k); (!gone || over > limit) && c.Tail > limit {
					y.Late(c, limit, "", "", "%s: %s still stood", ofCertificate(limit, end), k)
				}
				for _, f := range k.Frames {
					if f.At > end-sameInstant && f.At <= limit {
						ways[f.Kind]++
					}
				}
			}
			y.Count(stood, tunnels)
			y.Count(cut, streams)
			return y.Conclude(
				fmt.Sprintf("%s cut, and within %s the %d connections in them, of which the app heard too: our client read %d RST_STREAM, %d GOAWAY and %d close_notify. They were of %s", assertions.Plural(tunnels, "tunnel", "tunnels"), slowest.Round(time.Millisecond), streams, ways[timeline.FrameReset], ways[timeline.FrameGoAway], ways[timeline.FrameCloseNotify], who),
				fmt.Sprintf("%s, with %d connections in them, were not cut as they should be: the certificate had run out, and %s had shown no other one", assertions.Plural(tunnels, "tunnel", "tunnels"), streams, who))
		},
	}
}

// cutWith judges the end of a connection of a client whose certificate ran out, and says whether it was one that this had to cut.
func cutWith(y *assertions.Tally, c assertions.Case, done map[string]timeline.Entry, k tunnel.Tunnel, s timeline.Sample, end time.Duration) bool {
	limit := end + revokedWithin
	when := fmt.Sprintf("%s: %s", ofCertificate(s.End, end), k)
	over, gone := goneAt(k)
	app, ended := done[s.ID]
	switch {
	case s.First > 0 && s.Failed() && s.End <= end-sameInstant:
		y.Failed(c, s, s.End, "", "%s", when)
		return false
	case !underway(s, end), !s.Failed() && s.End <= limit:
		return false
	case !s.Failed():
		y.Late(c, limit, "", s.ID, "%s: this connection went on to its own end", when)
	case s.EndStream:
		y.Against(s.End, "", s.ID, "%s: this connection ended by END_STREAM, as if that were all: %s", when, s.Outcome)
	case s.End > limit:
		y.Failed(c, s, s.End, "", "%s: this connection went on until then", when)
	case s.Outcome != timeline.StreamReset && s.Outcome != timeline.Reset && (!gone || over > s.End+sameInstant):
		y.Against(s.End, "", s.ID, "%s: this connection ended without RST_STREAM, in a tunnel that stood: %s", when, s.Outcome)
	case (!ended || app.At > s.End+revokedWithin) && c.Tail > s.End+revokedWithin:
		y.Late(c, s.End+revokedWithin, "", s.ID, "%s: this connection was cut for the client, and for the app it went on", when)
	}
	y.Span(end, s.End)
	return true
}

// goneAt is when the server ended a tunnel, or our own client closed it that had been told to go.
func goneAt(k tunnel.Tunnel) (time.Duration, bool) {
	end, over := k.End()
	if told, ok := k.GoAway(); ok && !over && k.Left() >= told && k.Left() != math.MaxInt64 {
		return k.Left(), true
	}
	return end, over
}

// renewedFrom is when a client began the first connection that was answered of those with another certificate: its server
// has seen that soon behind. false: it never did.
func renewedFrom(c assertions.Case) (at time.Duration, ok bool) {
	for _, s := range c.Timeline.Samples {
		if s.Stream.Flow() == behaviour.Renewed.Flow && !s.Failed() && (!ok || s.Start < at) {
			at, ok = s.Start, true
		}
	}
	return at, ok
}

// keptFor is how long behind a certificate's end a neighbour's connections are looked at that begin there.
const keptFor = 5 * time.Second

// KeepsOthers judges what becomes of the connections of others when a client's certificate runs out: of a neighbour, and of
// one who has shown another certificate by then, in tunnels of the older one, from when it shows that.
func KeepsOthers() assertions.Check {
	neighbours := assertions.Floor{Name: "a neighbour's connections that were under way when the certificate ran out", N: 5,
		Reason: "two begin in a second, and take 5 s each"}
	shown := assertions.Floor{Name: "tunnels of who renews that it had opened with the new certificate, and used, before the older one ran out", N: 1,
		Reason: "one is what says that it has renewed"}
	renewed := assertions.Floor{Name: "its connections in tunnels of the older one that were under way when this ran out", N: 5,
		Reason: "two begin in a second, and take 7 s each"}
	return assertions.Check{
		Name:     "connections of others when a certificate has run out",
		Expected: fmt.Sprintf("from when a client has shown a new certificate on none fails of a neighbour, until %s after the certificate's end; nor of that client, in tunnels that it had opened with the older one", keptFor),
		Floors:   []assertions.Floor{neighbours, shown, renewed},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			beside, older, newer := 0, 0, 0
			shows, renews := renewedFrom(c)
			if end, _, ok := runsOut(&y, c, behaviour.RunningOut.Flow); ok {
				from := end - sameInstant
				if renews {
					from = min(from, shows)
				}
				for _, s := range c.Timeline.Samples {
					if s.Stream.Flow() != lasting.Flow || s.End <= from || s.Start > end+keptFor {
						continue
					}
					if underway(s, end) {
						beside++
					}
					y.Span(end, s.End)
					if s.Failed() {
						y.Failed(c, s, s.End, "", "%s: of a neighbour", ofCertificate(s.End, end))
					}
				}
			}
			if end, _, ok := runsOut(&y, c, behaviour.Renewing.Flow); ok {
				for _, k := range tunnelsOf(c, behaviour.Renewed.Flow) {
					if k.StoodAt(end - sameInstant) {
						newer++
					}
				}
				for _, s := range c.Timeline.Samples {
					// What begins behind the certificate's end has none to open a tunnel with.
					if s.Stream.Flow() != behaviour.Renewing.Flow || s.First == 0 || s.Start > end {
						continue
					}
					if underway(s, end) {
						older++
						y.Span(end, s.End)
					}
					if s.Failed() && newer > 0 && renews && s.End >= shows {
						y.Span(s.End, s.End)
						y.Failed(c, s, s.End, "", "%s: of a client that had shown another one by then", ofCertificate(s.End, end))
					}
				}
			}
			y.Count(neighbours, beside)
			y.Count(shown, newer)
			y.Count(renewed, older)
			return y.Conclude(
				fmt.Sprintf("none failed of %d that a neighbour had under way, nor of %d in tunnels of a certificate that had been renewed", beside, older),
				fmt.Sprintf("%d connections failed of others than who had to go: a neighbour had %d under way, and a client whose certificate had been renewed %d", y.Culprits(), beside, older))
		},
	}
}
