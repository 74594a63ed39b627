// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Reconciliation is what the ledger and the clients say of the same requests.
type Reconciliation struct {
	// Begun and Done count ledger entries; Attempts counts the clients' samples.
	Begun, Done, Attempts int
	// Answered counts the attempts that ended well at the client.
	Answered int
	// Lost: through the Service, the client saw no answer and no sign that
	// it is safe to retry. (A direct dial to a pod that is gone loses nothing.)
	Lost []timeline.Sample
	// Duplicated: requests that may be done once only, and that backends
	// began, or ended whole, more than once.
	Duplicated []Twice
	// Repeated counts those that may be done again, and were.
	Repeated int
	// Unaccounted: the client has a whole answer, and the ledger has not
	// both its beginning and its whole end. A missing tail looks like this.
	Unaccounted []string
	// Strange: the ledger has IDs that no client sent.
	Strange []string
}

// Twice is a request that backends began, or ended whole, more than once.
type Twice struct {
	ID, Method string
	// Begun and Whole are how often, At when the second time was.
	Begun, Whole int
	At           time.Duration
}

func (t Twice) String() string {
	text := "begun " + plural(t.Begun, "time", "times") + ", ended whole " + plural(t.Whole, "time", "times")
	return strings.TrimSpace(t.Method + " " + text)
}

// idempotent says whether a request may be done again when nobody knows what
// became of it. RFC 9110 section 9.2.2: "Of the request methods defined by this
// specification, PUT, DELETE, and safe request methods are idempotent."
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// Agrees says whether both sides tell the same story of every request ID.
func (r Reconciliation) Agrees() bool {
	return len(r.Duplicated) == 0 && len(r.Unaccounted) == 0 && len(r.Strange) == 0
}

// Reconcile holds the ledger against the clients, over the whole recording.
func Reconcile(tl *timeline.Timeline) Reconciliation {
	type story struct {
		begun, whole int
		second       time.Duration // when it was begun, or ended whole, again; 0: never
		method       string
		sent         bool
	}
	var r Reconciliation
	stories := make(map[string]*story, len(tl.Samples))
	get := func(id string) *story {
		s := stories[id]
		if s == nil {
			s = &story{}
			stories[id] = s
		}
		return s
	}
	for _, e := range tl.Ledger {
		st := get(e.ID)
		switch e.Step {
		case timeline.Begin:
			r.Begun++
			st.begun++
		case timeline.Done:
			r.Done++
			if e.Whole {
				st.whole++
			}
		}
		if st.second == 0 && (st.begun > 1 || st.whole > 1) {
			st.second = e.At
		}
		// One word that it may be done once only is enough.
		if st.method == "" || !idempotent(e.Method) {
			st.method = e.Method
		}
	}
	for _, s := range tl.Samples {
		if asks(s) || mute(s) {
			continue
		}
		r.Attempts++
		st := get(s.ID)
		st.sent = true
		switch {
		case s.Stream.Flow().Op == flow.Abandoned && !s.Failed():
			// Its client cut it before anybody could have it whole.
		case !s.Failed():
			r.Answered++
			if st.begun == 0 || st.whole == 0 {
				r.Unaccounted = append(r.Unaccounted, s.ID)
			}
		case throughService(s) && !s.Outcome.SafeToRetry() && s.Outcome != timeline.Cancelled:
			r.Lost = append(r.Lost, s)
		}
	}
	for id, st := range stories {
		switch again := st.begun > 1 || st.whole > 1; {
		case again && idempotent(st.method):
			r.Repeated++
		case again:
			r.Duplicated = append(r.Duplicated, Twice{ID: id, Method: st.method, Begun: st.begun, Whole: st.whole, At: st.second})
		}
		if !st.sent {
			r.Strange = append(r.Strange, id)
		}
	}
	slices.SortFunc(r.Duplicated, func(a, b Twice) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID)) })
	slices.Sort(r.Strange)
	return r
}
