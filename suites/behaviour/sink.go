// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The steady gate: each stream needs this many clean samples in a row, fewer
// where its requests are slow by design, before a disruption may begin.
const (
	steadyRun     = 20
	steadyRunSlow = 4
)

// A stream is never served when nothing of it, nor of another of its flow, went well in so long and in
// so many attempts, while all others ran clean.
const (
	unservedFor   = 15 * time.Second
	unservedTries = 3
)

// cutsItself says whether a flow's own clients cut its connections, from its begin on. What fails beside these is what is
// judged, and is none of the load that has to be clean before anything is disturbed.
func cutsItself(f flow.Flow) bool { return f.Op == flow.Abandoned }

// cleanRun is how many a stream of a flow needs.
func cleanRun(f flow.Flow) int {
	if cutsItself(f) {
		return 0
	}
	if f.Op == flow.Get || f.Op == flow.Unary {
		return steadyRun
	}
	return steadyRunSlow
}

// Sink takes everything that is seen of one scenario: it records it and
// watches the streams for the steady gate.
type Sink struct {
	rec *timeline.Recorder
	// deaf drops failed samples: the fault DeafClients.
	deaf bool

	mu      sync.Mutex
	err     error
	streams map[flow.Stream]*streamState
	samples int
	failed  int
	told    map[string]tells // of each request ID
	wanted  int              // how many of these are told by one side, and due from the other
	heard   time.Time        // when a backend last told how much closed-loop load it served
}

type streamState struct {
	clean int
	last  string
	// tried counts the attempts until one went well, the first of which ended at
	// since; served: one has.
	tried  int
	since  time.Time
	served bool
}

func newSink(rec *timeline.Recorder, fault spec.Fault) *Sink {
	return &Sink{rec: rec, deaf: fault == DeafClients, streams: map[flow.Stream]*streamState{}, told: map[string]tells{}}
}

// Emit records what an agent or an observer saw. offset is what its clock
// lacks to this process's; 0 for what shares its boot.
func (k *Sink) Emit(r timeline.Record, offset time.Duration) {
	if k.deaf && r.Sample != nil && r.Sample.Failed() {
		return
	}
	err := k.rec.Emit(r, offset)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.err == nil {
		k.err = err
	}
	switch {
	case r.Event != nil && r.Event.Kind == timeline.PressureServed:
		k.heard = time.Now()
	case r.Sample != nil:
		k.watch(r.Sample)
	case r.Entry != nil && r.Entry.Step == timeline.Done && r.Entry.Whole:
		k.settle(r.Entry.ID, tellsDone)
	}
}

// Event records an event of the suite's own: now, where it has no instant yet. One that took a while
// has that of its beginning (disrupt.Tell), and what it led to may come before this call.
func (k *Sink) Event(e timeline.Event) {
	e.At = cmp.Or(e.At, timeline.Monotonic())
	k.Emit(timeline.Record{Event: &e}, 0)
}

func (k *Sink) watch(s *timeline.Sample) {
	k.samples++
	who := tellsAsked
	// Behind a proxy it may be unknown whose answer it was.
	if !s.Failed() && (s.Server != "" || s.Via != "") {
		who = tellsAnswered
	}
	k.settle(s.ID, who)
	st := k.streams[s.Stream]
	if st == nil {
		st = &streamState{since: time.Now()}
		k.streams[s.Stream] = st
	}
	if assertions.LeftBehind(*s) {
		return // as a server does that keeps no connection, drain or not
	}
	if s.Unsent() {
		// Nobody was asked, and so nobody failed to answer.
		st.clean, st.last = 0, s.Err
		return
	}
	if s.Failed() && !assertions.LostBehindEnd(*s) {
		k.failed++
		st.tried++
		st.clean, st.last = 0, fmt.Sprintf("%s (%s) %s", s.Outcome, s.Phase, s.Err)
		return
	}
	st.clean++
	st.served = true
}

// tells are who has told of a request ID.
type tells uint8

const (
	tellsAnswered tells = 1 << iota // its client, that it has a backend's answer: the ledger entry is due
	tellsAsked                      // its client, that it has none: a ledger entry may be there, and may not
	tellsDone                       // its backend, that all of it was done: the client is due
)

// due says whether the other side has still to tell of it.
func (t tells) due() bool {
	return t == tellsAnswered || t == tellsDone
}

// settle notes who tells of a request ID.
func (k *Sink) settle(id string, who tells) {
	was := k.told[id]
	now := was | who
	k.told[id] = now
	switch {
	case now.due() && !was.due():
		k.wanted++
	case was.due() && !now.due():
		k.wanted--
	}
}

// Err is the first error of the recorder.
func (k *Sink) Err() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// Counts are the samples so far, and the failures among them.
func (k *Sink) Counts() (samples, failed int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.samples, k.failed
}

// errNothingServed: no stream got an answer that was worth anything, of a system that claims
// to serve them all.
var errNothingServed = errors.New("it came up, and served nothing of what was asked")

// awaitSteady waits until every stream has run clean for long enough. Where the
// system has claimed to serve all of them, it marks those that it never serves, and
// waits for the others; that it serves none ends the wait.
func (k *Sink) awaitSteady(ctx context.Context, streams []flow.Stream, claimed bool, budget time.Duration) error {
	var never []flow.Stream
	err := disrupt.Await(ctx, budget, "clean streams", func(context.Context) (ok bool, seen string, err error) {
		ok, never, seen = k.steady(streams, claimed)
		if len(never) > 0 && len(never) == len(streams) {
			return false, seen, disrupt.Final(fmt.Errorf("%w in %s, before anything was disturbed: %s", errNothingServed, unservedFor, k.failures(streams)))
		}
		return ok, seen, nil
	})
	if err != nil {
		return err
	}
	for _, name := range never {
		k.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{
			"what": assertions.MarkUnserved, "stream": name.String(), "why": k.lastOf(name),
		}})
	}
	return nil
}

// steady says whether all streams are clean but those that are never served, and which
// those are; and if not, what is missing.
func (k *Sink) steady(streams []flow.Stream, claimed bool) (ok bool, never []flow.Stream, seen string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A flow that somebody is served is none that the system does not serve.
	served := map[flow.Flow]bool{}
	for _, name := range streams {
		if st := k.streams[name]; st != nil && st.served {
			served[name.Flow()] = true
		}
	}
	var waiting []string
	for _, name := range streams {
		st := k.streams[name]
		need := cleanRun(name.Flow())
		switch {
		case st == nil:
			waiting = append(waiting, name.String()+" sent nothing yet")
		case st.clean < need:
			w := fmt.Sprintf("%s: %d of %d clean in a row", name, st.clean, need)
			if st.last != "" {
				w += ", last failure: " + st.last
			}
			waiting = append(waiting, w)
			if claimed && !served[name.Flow()] && st.tried >= unservedTries && time.Since(st.since) >= unservedFor {
				never = append(never, name)
			}
		}
	}
	ok = len(waiting) == len(never) && len(never) < len(streams)
	slices.Sort(waiting)
	if len(waiting) > 3 {
		waiting = append(waiting[:3], fmt.Sprintf("and %d more", len(waiting)-3))
	}
	return ok, never, strings.Join(waiting, "; ")
}

// failures are how some streams failed last, the ways that were met most.
func (k *Sink) failures(streams []flow.Stream) string {
	const told = 3
	of := map[string]int{}
	for _, name := range streams {
		of[k.lastOf(name)]++
	}
	ways := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b))
	})
	var out []string
	for _, way := range ways[:min(told, len(ways))] {
		out = append(out, fmt.Sprintf("%d of %d streams last met: %s", of[way], len(streams), way))
	}
	return strings.Join(out, "; ")
}

// lastOf is a stream's last failure.
func (k *Sink) lastOf(stream flow.Stream) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.streams[stream].last
}

// servedQuiet is how long no backend has told a new number of closed-loop load when all
// have told their last one: each tells it four times a second while it grows.
const servedQuiet = time.Second

// awaitServed waits until the backends have told of all closed-loop load, which has
// ended.
func (k *Sink) awaitServed(ctx context.Context, budget time.Duration) error {
	ended := time.Now()
	return disrupt.Await(ctx, budget, "the backends' count of the closed-loop load", func(context.Context) (bool, string, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		last := k.heard
		if last.Before(ended) {
			last = ended
		}
		return time.Since(last) >= servedQuiet, fmt.Sprintf("the last number came %s ago", time.Since(k.heard).Round(time.Millisecond)), nil
	})
}

// awaitLedger waits until each answered request has its ledger entry, and
// each whole entry its client, whatever became of its answer.
func (k *Sink) awaitLedger(ctx context.Context, budget time.Duration) error {
	return disrupt.Await(ctx, budget, "the ledger's tail", func(context.Context) (bool, string, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.wanted == 0, fmt.Sprintf("%d request IDs are told by one side only", k.wanted), nil
	})
}
