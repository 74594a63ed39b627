// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// RFC 5280 section 4.1.2.5: "The certificate validity period is the time interval during which the CA
// warrants that it will maintain information about the status of the certificate." A peer takes none behind that.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.renews-while-draining",
	Title: "A sidecar's certificate is renewed to its end: no handshake and no connection of a draining pod's is lost with one",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "sidecars",
			Quote: "Certificates are good for an hour at most, and are renewed under load and during a drain without a lost connection.",
		},
		{
			Doc: "RFC 5280", Section: "section 4.1.2.5", URL: "https://www.rfc-editor.org/rfc/rfc5280#section-4.1.2.5",
			Quote: "The certificate validity period is the time interval during which the CA warrants that it will maintain information about the status of the certificate.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A mesh's certificates live for an hour or less, and an app may take as long for its drain: a queue hands over its messages, a socket's clients leave one by one. A sidecar whose certificate runs out meanwhile turns away who dials the pod and can't dial for its app, and nothing was wrong with either.",
	Causes: "A proxy that ends the client of its control plane, or what renews its certificate, at SIGTERM with the rest. One that reads its certificate once, when it starts. A renewal that closes the tunnels of before, or one that opens none, so that the peers see the old certificate run out under what is in them.",
	Fix:    "End what renews the certificate last, behind the last connection. Take the certificate anew for each handshake. Behind each renewal open a new tunnel to each peer that something runs to, and leave what runs in the old one where it is.",

	Topology: behaviour.BesideRenewing,
	Disrupt:  behaviour.DeletePair,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 15},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: outlasts}, Rate: 1},
		{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Upload, Takes: outlasts}, Rate: 1},
	},
	Checks:     []assertions.Check{ShowsGoodCertificates(), OutlastsCertificates()},
	BrokenBy:   []spec.Fault{sidecar.StopsRenewing, datapath.ShowsOld, datapath.CutsAtRenewal},
	Resolution: 60 * time.Millisecond,
})

// outlasts is how long a connection lasts that no certificate of BesideRenewing's lasts as long as.
const outlasts = 9 * time.Second

// ShowsGoodCertificates judges the handshakes of tunnels with a draining pod: a client that finds its peer's certificate bad
// ends the handshake, and a peer that has none ends it itself.
func ShowsGoodCertificates() assertions.Check {
	behind := assertions.Floor{Per: "termination", Name: "handshakes from D until the app accepts no more, behind the end of what was shown before D", N: 50,
		Reason: "fifteen a second, for the six seconds or so that there are",
	}
	return assertions.Check{
		Name:     "the certificate in each handshake, from D until the app accepts no more",
		Expected: "it is good, also when that has run out which was shown before D; no handshake is cut, and behind it is answered what is not turned away",
		Floors:   []assertions.Floor{behind},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			ends := certificateEnds(c)
			all := 0
			for t := range y.Terminations(c) {
				until := assertions.AppAccepts(c, t)
				y.Span(t.Drain.At, until)
				shown := time.Duration(0)
				for _, s := range c.Timeline.Samples {
					if tunnel.Direct(s, t) && s.Start < t.Drain.At {
						shown = max(shown, ends[s.On()])
					}
				}
				n := 0
				for _, s := range c.Timeline.Samples {
					if !tunnel.Direct(s, t) || s.Nth != 1 || s.Start < t.Drain.At+t.Drain.Err || s.Start > until {
						continue
					}
					_, good := ends[s.On()]
					bad := s.Failed() && s.Phase == timeline.PhaseTLS // of who is refused before that another rule speaks
					switch {
					case bad:
						// Who had no time could not have it renewed.
						y.Late(c, s.Start, t.Name, s.ID, "%s: %s: the handshake: %s: %s", t.Clock(s.End), s.Stream.Kind(), s.Outcome, s.Err)
					case !good:
						continue
					case s.Stream.Flow().Conns != flow.New: // of what lasts the other check speaks
					case s.Failed() && s.Outcome.SafeToRetry():
						continue // it was turned away as not processed, which is no word on a certificate
					case s.Failed():
						// A server has looked at its client's certificate when that has taken the handshake for done.
						y.Late(c, s.Start, t.Name, s.ID, "%s: %s: behind the handshake: %s: %s", t.Clock(s.End), s.Stream.Kind(), s.Outcome, s.Err)
					}
					all++
					if s.Start > shown && shown > 0 && !s.Saturated {
						n++
					}
				}
				y.Least(behind, t.Name, n)
			}
			return y.Conclude(
				fmt.Sprintf("it was good in all %d", all),
				fmt.Sprintf("%d of %s came to nothing", y.Culprits(), assertions.Plural(all, "handshake", "handshakes")))
		},
	}
}

// certificateEnds is when the certificate runs out that a tunnel's peer showed at its begin.
func certificateEnds(c assertions.Case) map[timeline.Connection]time.Duration {
	out := map[timeline.Connection]time.Duration{}
	for _, f := range c.Timeline.Frames {
		if f.Kind != timeline.FrameCertificate {
			continue
		}
		if good, err := time.ParseDuration(f.Attrs["for"]); err == nil {
			out[f.On()] = f.At + good
		}
	}
	return out
}

// OutlastsCertificates judges what goes through a draining pod's sidecar for longer than a certificate of its own is good for,
// both ways, and what the app dials meanwhile.
func OutlastsCertificates() assertions.Check {
	in := assertions.Floor{Per: "termination", Name: "long answers through tunnels that ended after D, and began before the app accepted no more", N: 10,
		Reason: "one a second",
	}
	out := assertions.Floor{Per: "termination", Name: "long uploads of the app's that ended after D", N: 10, Reason: in.Reason}
	fresh := assertions.Floor{Per: "termination", Name: "calls over new connections that the app made from D on", N: 100,
		Reason: "ten a second, for the twenty seconds or so that there are",
	}
	return assertions.Check{
		Name:     fmt.Sprintf("what takes %s through a sidecar whose certificates are good for %s, and what the app dials meanwhile", outlasts, behaviour.BesideRenewing.Validity),
		Expected: "each answer and each call comes to its end",
		Floors:   []assertions.Floor{in, out, fresh},
		Likely:   likelySidecar,
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			away := peerAway(c)
			all := 0
			for t := range y.Terminations(c) {
				until := assertions.AppAccepts(c, t)
				n := map[string]int{}
				count := func(floor assertions.Floor, s timeline.Sample) {
					all++
					if s.Failed() {
						y.Late(c, s.End, t.Name, s.ID, "%s: %s: %s: %s", t.Clock(s.End), s.Stream.Kind(), s.Outcome, s.Err)
					}
					if !s.Saturated {
						n[floor.Name]++
					}
				}
				last := until
				for _, s := range c.Timeline.Samples {
					if tunnel.Direct(s, t) && s.Stream.Flow().Op == flow.Slow && s.End > t.Drain.At && s.Start <= until && !(s.Failed() && s.Outcome.SafeToRetry()) {
						count(in, s)
					}
				}
				for _, s := range callsOf(c, t.UID) {
					if s.End < t.Drain.At {
						continue
					}
					last = max(last, s.End)
					switch {
					case s.Failed() && away.at(s):
						y.Doubt("%s failed %s of %s, while who is called was no endpoint of its Service", s.Stream.Kind(), t.Clock(s.Start), t.Name)
					case s.Stream.Flow().Op == flow.Upload:
						count(out, s)
					case s.New():
						count(fresh, s)
					}
				}
				y.Span(t.Drain.At, last)
				for _, floor := range []assertions.Floor{in, out, fresh} {
					y.Least(floor, t.Name, n[floor.Name])
				}
				lastWord(&y, c, t)
			}
			return y.Conclude(
				fmt.Sprintf("all %d came to their end", all),
				fmt.Sprintf("%d of %d did not", y.Culprits(), all))
		},
	}
}
