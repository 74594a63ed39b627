// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// inTCP are the protocols that mean nothing to whoever passes them on. The client
// that speaks them says what it does in load/work, talk.go: the server greets
// first (Sample.First); what the client then sends comes back as it goes; and
// when all was sent it ends its half (Sample.Sent), whereupon the server says
// what it has read, and ends its own.
var inTCP = []flow.Protocol{flow.TCP}

// talks says whether a sample is such a stream.
func talks(s timeline.Sample) bool { return s.Stream.Flow().Op == flow.Talk }

// halfClosed says whether the client had ended its half of a talk, and the server
// could know of it when the talk ended: what is lost from then on is lost behind a
// half-close.
func halfClosed(s timeline.Sample) bool { return s.Sent > 0 && s.Sent+delay(s) <= s.End-delay(s) }

// LostBehindEnd says whether a talk lost what it lost behind its client's half-close:
// all had come back, or it ended just then, with its last pieces on their way. One that
// had stood still before only swallowed what its client went on to say. Who ends both halves at the end of one
// does so whether it drains or not: all but that is served.
func LostBehindEnd(s timeline.Sample) bool {
	if !talks(s) || !s.Failed() || !halfClosed(s) || garbled(s) {
		return false
	}
	rest := justEnded + 2*delay(s)
	missing := s.Want - s.Got
	return missing <= 0 ||
		s.End-s.Sent <= rest && (missing <= s.Want/lastPiece || float64(missing)*takes(s).Seconds() <= float64(s.Want)*rest.Seconds())
}

// lastPiece is the part of a talk, one in so many, that its client may say together with its end (load/work).
const lastPiece = 20

// garbled says whether the bytes of an answer were not those that were sent.
func garbled(s timeline.Sample) bool {
	return s.Outcome == timeline.Corrupt || s.Outcome == timeline.Malformed
}

// CarriesOpaque judges that the streams which an instance had at D, and those
// that it took up after it, come through byte-exact. The rule is the project's
// own: a drain that knows of requests only has no end for what is none, and cuts
// it where it stands.
//
// A stream that was never greeted is of ServerSpeaksFirst, and what is lost
// behind the client's half-close of PassesHalfClose, unless bytes were changed.
func CarriesOpaque() Check {
	const what = "opaque streams in flight at D"
	enough := Floor{Per: "termination", Name: what, N: 5, Reason: atOneInstant}
	return Check{
		Name:     what + ", and after it",
		Expected: "every byte reaches the other side as it was sent, until the stream ends by itself or the instance's deadline comes",
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			total, lost, over, hit := 0, 0, 0, 0
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				atD, before := 0, g.failures()
				for _, s := range underWay(c, t, t.Drain.At-t.Drain.Err) {
					if !talks(s) || s.First == 0 && !garbled(s) {
						continue
					}
					if LostBehindEnd(s) {
						// It came through to its client's end, which is one that was in flight at D where that came later.
						if total++; !s.Saturated && s.Start < t.Drain.At-t.Drain.Err && s.Sent-delay(s) > t.Drain.At+t.Drain.Err {
							atD++
						}
						continue
					}
					if s.Failed() && !garbled(s) && Outlasts(c, t, s) {
						over++
						continue
					}
					total++
					if !s.Saturated && s.Start < t.Drain.At-t.Drain.Err && s.End-delay(s) > t.Drain.At+t.Drain.Err {
						atD++
					}
					switch {
					case s.Outcome == timeline.Timeout:
						lost++
						g.late(c, s.End, t.Name, s.ID, "%s: %s%s", relative(s.End, t), describe(s), returned(s))
					case s.Failed():
						lost++
						g.ended(c, t, s, s.End, "%s%s", describe(s), returned(s))
					case !whole[s.ID]:
						g.unended(s)
					}
				}
				if g.failures() > before {
					hit++
				}
				g.least(enough, t.Name, atD)
			}
			g.needTerminations(c)
			g.finding.Bounds = spec.BoundsOf(len(c.Terminations), hit, max(total, lost), lost)
			text := fmt.Sprintf("all %d opaque streams under way from D on came through byte for byte", total)
			if over > 0 {
				text += fmt.Sprintf("; %d more took longer than the instance had, and were cut at its deadline", over)
			}
			return g.conclude(text, fmt.Sprintf("%d of %s did not come through, at %d of %s", lost, plural(total, "opaque stream", "opaque streams"), hit, c.ends()))
		},
	}
}

// returned says how much of a talk had come back, where describe does not.
func returned(s timeline.Sample) string {
	if s.Outcome == timeline.Truncated {
		return ""
	}
	return fmt.Sprintf(", %d of %d bytes", s.Got, s.Want)
}

// justEnded is how long the rest of a talk may take whose client has ended its half: what
// is left is its last piece and a FIN. A talk that has come back to within so long of its
// end has not stood still.
const justEnded = time.Second

// PassesHalfClose judges that the end of one half of a stream is that of this
// half only, while the instance drains. RFC 9293 section 3.6: "The user who
// CLOSEs may continue to RECEIVE until the TCP receiver is told that the remote
// peer has CLOSED also."
//
// What the process took with it when it exited, or cut at its declared deadline, is no
// half-close.
func PassesHalfClose() Check {
	const what = "opaque streams whose client ended its half after D"
	enough := Floor{Per: "termination", Name: what, N: 5, Reason: "a stream is half-closed once, and there are few of them"}
	return Check{
		Name:     what,
		Expected: "the client's FIN reaches the server, what the server says behind it reaches the client, and the server's FIN too",
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			total, lost := 0, 0
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				judged := 0
				for _, s := range c.Timeline.Samples {
					// What is cut at D may have ended its half just then, or before its
					// client was told.
					if !directTo(s, t.UID) || !talks(s) || !halfClosed(s) || s.Sent-delay(s) < t.Drain.At+max(t.Drain.Err, atOnce) || s.Failed() && !LostBehindEnd(s) {
						continue
					}
					// A FIN that was swallowed leaves the talk hanging for longer than that.
					fresh := s.End-s.Sent <= justEnded+2*delay(s)
					if s.Failed() && fresh && (Outlasts(c, t, s) || t.Exit.Known() && s.End-delay(s) >= t.Exit.At-t.Exit.Err-atOnce) {
						continue
					}
					judged++
					if s.Failed() {
						lost++
						g.broke(c, t, s, "%s after its client had ended its half: %s%s", ms(s.End-s.Sent), describe(s), returned(s))
					}
				}
				total += judged
				g.least(enough, t.Name, judged)
			}
			g.needTerminations(c)
			return g.conclude(
				fmt.Sprintf("all %d opaque streams whose client ended its half after D were ended by each side for itself", total),
				fmt.Sprintf("%d of %s lost what came behind its client's FIN", lost, plural(total, "opaque stream", "opaque streams")))
		},
	}
}

// hears says whether a sample is of a stream whose server ends its half at once: what
// becomes of its bytes only the ledger knows.
func hears(s timeline.Sample) bool { return s.Stream.Flow().Op == flow.Hear }

// PassesServersEnd judges the other way of PassesHalfClose: a server that has said all
// that it had to say ends its half, and hears its client out.
func PassesServersEnd() Check {
	const what = "opaque streams that went on after D behind their server's end"
	enough := Floor{Per: "termination", Name: what, N: 5, Reason: "a stream is half-closed once, and there are few of them"}
	return Check{
		Name:     what,
		Expected: "the server's FIN reaches the client before the client ends its own half, and what the client says meanwhile reaches the server, and the client's FIN too",
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			ended := c.Timeline.EntriesOf(timeline.Done)
			total, lost := 0, 0
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				judged := 0
				from, lives := t.Drain.At+max(t.Drain.Err, atOnce), talksOn(c, t)
				for _, k := range connectionsOf(c, t, hears) {
					s := k.first()
					// It ends its half as soon as it has greeted: before D too, and then its client has to be seen
					// behind that. Who cuts all that it has at D is another rule's: this client hears of it by its next write.
					after := k.left(s.First) >= from
					spoke, wasCut := s.Sent > 0 && s.Sent-delay(s) >= from, s.Failed() && lives && k.left(s.End) >= from
					if s.First == 0 || !after && !spoke && !wasCut {
						continue
					}
					e, known := ended[s.ID]
					// A client whose last words were on their way when the instance's time
					// was up knows of no cut.
					cut := s.Failed() || known && !e.Whole
					if cut && (Outlasts(c, t, s) || t.Exit.Known() && k.left(s.End) >= t.Exit.At-t.Exit.Err-atOnce) {
						continue
					}
					judged++
					end, over := k.ended()
					switch {
					case s.Failed():
						lost++
						g.broke(c, t, s, "its client had not ended its half: %s", describe(s))
					case !known:
						g.unended(s)
					case !e.Whole:
						lost++
						g.ended(c, t, s, k.left(s.End), "behind its own FIN the server read %d bytes of %d, or other ones", e.Bytes, s.Want)
					case after && over && end.At > s.Sent:
						lost++
						g.late(c, end.At, t.Name, s.ID, "%s: the server's FIN came %s after its client's, and was sent before it", relative(k.left(end.At), t), ms(end.At-s.Sent))
					}
				}
				total += judged
				g.least(enough, t.Name, judged)
			}
			g.needTerminations(c)
			return g.conclude(
				fmt.Sprintf("all %d opaque streams that went on after D behind their server's end were heard to their own", total),
				fmt.Sprintf("%d of %s not heard to their end, or heard of the server's too late", lost, plural(total, "opaque stream was", "opaque streams were")))
		},
	}
}

// talksOn says whether a talk that an instance had in hand at D went on for a while behind it.
func talksOn(c Case, t Ending) bool {
	return slices.ContainsFunc(underWay(c, t, t.Drain.At-t.Drain.Err), func(s timeline.Sample) bool {
		return talks(s) && s.Start < t.Drain.At-t.Drain.Err && s.End >= t.Drain.At+t.Drain.Err+justEnded
	})
}

// CutIsVisible judges how an instance cuts the streams that by design would have
// gone on beyond its exit. RFC 9293 section 3.6: "CLOSE is an operation meaning
// "I have no more data to send."" Whoever says that in the middle of a stream
// makes a whole download of half a one. Section 3.10.5 has another call for it,
// ABORT: "Send a reset segment".
func CutIsVisible() Check {
	const what = "opaque streams that still ran when the instance cut them"
	enoughFloor := Floor{Name: what, N: 3, Reason: "few streams are long enough, and each is cut once"}
	return Check{
		Name:     what,
		Expected: fmt.Sprintf("each ends by RST, and not by a FIN, to its client; and to its backend, where the instance stands between them, within %s", cutHeardWithin),
		Floors:   []Floor{enoughFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			cut, hidden, spared := 0, 0, 0
			backends := backendsEnds{begun: c.Timeline.EntriesOf(timeline.Begin), done: c.Timeline.EntriesOf(timeline.Done)}
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				if !t.Exit.Known() {
					g.doubt("nobody saw %s exit", t.Name)
					continue
				}
				for _, k := range connectionsTo(c, t, inTCP) {
					s := k.first()
					end, over := k.ended()
					if !over || !talks(s) || !stillRan(c, t, s) || s.First == 0 || halfClosed(s) {
						continue
					}
					at := k.left(end.At)
					if sparedAt(c, t, at) {
						spared++
						continue
					}
					cut++
					before := g.failures()
					if end.Kind == timeline.FrameFIN {
						g.against(t, at, s.ID, "connection %d ended by FIN in the middle of its stream: %s%s", k.number(), describe(s), returned(s))
					}
					backends.judge(&g, c, t, s, at)
					if g.failures() > before {
						hidden++
					}
				}
			}
			g.needTerminations(c)
			if f, only := g.nothingButKill(spared, "streams that still ran"); only && cut == 0 {
				return f
			}
			g.count(enoughFloor, cut)
			passed := fmt.Sprintf("all %d opaque streams that still ran when the instance cut them were reset", cut)
			if backends.heard > 0 {
				passed += fmt.Sprintf(", and to their backends too (%d)", backends.heard)
			}
			return g.conclude(passed,
				fmt.Sprintf("%d of %s ended by FIN, as if whole, or not at all, at one side", hidden, plural(cut, "stream that was cut was", "streams that were cut were")))
		},
	}
}

// cutHeardWithin is how long after its client the backend of a stream that is cut may hear of it.
const cutHeardWithin = time.Second

// backendsEnds is what the backends of a recording wrote down of the ends of talks.
type backendsEnds struct {
	begun, done map[string]timeline.Entry // by the request's ID
	heard       int                       // cuts of which a backend read an RST
}

// judge judges the backend's side of a stream that an instance cut, whose client heard of that at an instant. Where the instance is
// itself the backend there is none; and of one that ends as well nobody knows whose cut it read.
func (b *backendsEnds) judge(g *gather, c Case, t Ending, s timeline.Sample, at time.Duration) {
	begun, is := b.begun[s.ID]
	if !is || slices.ContainsFunc(c.Endings, func(e Ending) bool { return e.UID == begun.Pod }) {
		return
	}
	done, over := b.done[s.ID]
	within := at + cutHeardWithin
	switch {
	case !over && within < c.Tail:
		g.late(c, within, t.Name, s.ID, "%s: the backend of a stream that was cut had heard nothing of it %s later", relative(at, t), cutHeardWithin)
	case done.Ended == timeline.EndedByFIN:
		g.against(t, at, s.ID, "the backend of a stream that was cut read a FIN behind %d bytes of %d, as if that were all", done.Bytes, s.Want)
	case done.Ended == timeline.EndedByRST:
		b.heard++
	}
}

// greetsWithin is how long the server's first line may take: it is sent as soon
// as a connection stands.
const greetsWithin = time.Second

// ServerSpeaksFirst judges that new opaque streams hear their server at once
// while the instance drains. The rule is the project's own: who waits for a
// client's first bytes to know its protocol waits in vain where the server has
// to speak first.
func ServerSpeaksFirst() Check {
	const what = "opaque streams that began after D"
	enough := Floor{Per: "termination", Name: what, N: 5,
		Reason: "a stream takes seconds, so that there are few of them: one that waits for its client always does",
	}
	return Check{
		Name:     "when " + what + " hear their server",
		Expected: fmt.Sprintf("what the server says first is there within %s after the connection, although its client has not said a word", greetsWithin),
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			total, held := 0, 0
			var longest time.Duration
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				judged := 0
				for _, s := range underWay(c, t, t.Drain.At+t.Drain.Err) {
					if !talks(s) || s.Start < t.Drain.At+t.Drain.Err || garbled(s) {
						continue
					}
					total++
					if !s.Saturated {
						judged++
					}
					took := s.First - s.Dial
					switch {
					case s.First == 0:
						held++
						g.broke(c, t, s, "its server was never heard: %s", describe(s))
					case took > greetsWithin:
						held++
						g.late(c, s.First, t.Name, s.ID, "%s: its server was heard only %s after it", relative(s.Dial, t), ms(took))
					default:
						longest = max(longest, took)
					}
				}
				g.least(enough, t.Name, judged)
			}
			g.needTerminations(c)
			return g.conclude(
				fmt.Sprintf("all %d opaque streams that began after D heard their server within %s", total, ms(longest)),
				fmt.Sprintf("%d of %s kept from their server", held, plural(total, "opaque stream was", "opaque streams were")))
		},
	}
}
