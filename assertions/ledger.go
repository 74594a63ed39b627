// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"slices"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
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
	// Duplicated: IDs that backends began, or ended whole, more than once.
	Duplicated []string
	// Unaccounted: the client has a whole answer, and the ledger has not
	// both its beginning and its whole end. A missing tail looks like this.
	Unaccounted []string
	// Strange: the ledger has IDs that no client sent.
	Strange []string
}

// Agrees says whether both sides tell the same story of every request ID.
func (r Reconciliation) Agrees() bool {
	return len(r.Duplicated) == 0 && len(r.Unaccounted) == 0 && len(r.Strange) == 0
}

// Reconcile holds the ledger against the clients, over the whole recording.
func Reconcile(tl *timeline.Timeline) Reconciliation {
	type story struct {
		begun, whole int
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
		switch e.Step {
		case timeline.Begin:
			r.Begun++
			get(e.ID).begun++
		case timeline.Done:
			r.Done++
			if e.Whole {
				get(e.ID).whole++
			}
		}
	}
	for _, s := range tl.Samples {
		if asks(s) {
			continue
		}
		r.Attempts++
		st := get(s.ID)
		st.sent = true
		switch {
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
		if st.begun > 1 || st.whole > 1 {
			r.Duplicated = append(r.Duplicated, id)
		}
		if !st.sent {
			r.Strange = append(r.Strange, id)
		}
	}
	slices.Sort(r.Duplicated)
	slices.Sort(r.Strange)
	return r
}
