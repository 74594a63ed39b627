// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Result is what may be stated of a system for one profile.
type Result string

// The results. A MUST that failed weighs most, also where it is a known
// deviation; what was not shown is never conformant.
const (
	// Conformant: every MUST passed, or needs a feature that the system does not
	// claim; and one passed at least.
	Conformant Result = "conformant"
	// Partial: no MUST failed, and something keeps the rest from being all: a MUST was
	// skipped for another reason, was not selected or could not be shown, or the run
	// itself proves less than it should.
	Partial Result = "partial"
	// Nonconformant: a MUST failed.
	Nonconformant Result = "nonconformant"
	// Unjudged: no MUST failed, and none passed. Nothing can be stated.
	Unjudged Result = "unjudged"
)

// Profile is the result of one profile, and the counts that it follows from.
type Profile struct {
	Name   spec.Profile `json:"name"`
	Result Result       `json:"result"`
	Must   Tally        `json:"must"`
	Should Tally        `json:"should"`
	May    Tally        `json:"may"`
}

// Tally counts the behaviours of one level. Known are among Failed; the rest
// are apart from each other, and all together are what the catalogue has.
type Tally struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	// Known are those which failed and are known deviations.
	Known        int `json:"known,omitempty"`
	Inconclusive int `json:"inconclusive,omitempty"`
	Errors       int `json:"errors,omitempty"`
	// Unclaimed were skipped, because they need a feature that the system does not
	// claim; Skipped were for another reason.
	Unclaimed int `json:"unclaimed,omitempty"`
	Skipped   int `json:"skipped,omitempty"`
	// Unselected are the catalogue's that the run was not asked for.
	Unselected int `json:"unselected,omitempty"`
}

// Unselected is a behaviour of the catalogue that the run was not asked for.
type Unselected struct {
	ID      string       `json:"id"`
	Level   spec.Level   `json:"level"`
	Profile spec.Profile `json:"profile"`
}

// Deviation is a rule that the system is known to break, as its file lists it.
type Deviation struct {
	Behaviour string `json:"behaviour"`
	Reason    string `json:"reason"`
	Link      string `json:"link,omitempty"`
}

func (d Deviation) String() string {
	if d.Link == "" {
		return d.Reason
	}
	return fmt.Sprintf("%s (%s)", d.Reason, d.Link)
}

// All is how many behaviours are counted.
func (t Tally) All() int {
	return t.Passed + t.Failed + t.Inconclusive + t.Errors + t.Unclaimed + t.Skipped + t.Unselected
}

// Owed is how many of them are the system's to keep: all but those that need a
// feature which it does not claim.
func (t Tally) Owed() int { return t.All() - t.Unclaimed }

func (t *Tally) add(b *Behaviour) {
	switch b.Verdict {
	case spec.Pass:
		t.Passed++
	case spec.Fail:
		t.Failed++
		if b.Known != nil {
			t.Known++
		}
	case spec.Error:
		t.Errors++
	case spec.Skipped:
		if b.Skip == spec.Unclaimed {
			t.Unclaimed++
		} else {
			t.Skipped++
		}
	default:
		t.Inconclusive++
	}
}

// result follows from the MUSTs; sound: the run as a whole can be believed.
func (t Tally) result(sound bool) Result {
	switch {
	case t.Failed > 0:
		return Nonconformant
	case t.Passed == 0:
		return Unjudged
	case t.Passed == t.Owed() && sound:
		return Conformant
	default:
		return Partial
	}
}

// tally is that of a level; nil for a control, which is the suite's own.
func (p *Profile) tally(l spec.Level) *Tally {
	switch l {
	case spec.Must:
		return &p.Must
	case spec.Should:
		return &p.Should
	case spec.May:
		return &p.May
	default:
		return nil
	}
}

// profiles are the results of all profiles; nil for a report without any, which
// an earlier version made, and for a run that judged no system.
func (r *ConformanceReport) profiles() []Profile {
	if r.Matrix != nil {
		return nil
	}
	out := make([]Profile, 0, len(spec.Profiles()))
	for _, name := range spec.Profiles() {
		out = append(out, Profile{Name: name})
	}
	counted := false
	count := func(name spec.Profile, l spec.Level, add func(*Tally)) {
		for i := range out {
			if t := out[i].tally(l); out[i].Name == name && t != nil {
				counted = true
				add(t)
			}
		}
	}
	for i := range r.Behaviours {
		b := &r.Behaviours[i]
		count(b.Profile, b.Level, func(t *Tally) { t.add(b) })
	}
	for _, u := range r.Unselected {
		count(u.Profile, u.Level, func(t *Tally) { t.Unselected++ })
	}
	if !counted {
		return nil
	}
	sound := len(r.Doubts()) == 0
	for i := range out {
		out[i].Result = out[i].Must.result(sound)
	}
	return out
}

// Doubts are why the run as a whole proves less than it should, whatever its
// behaviours say: a line each.
func (r *ConformanceReport) Doubts() []string {
	var out []string
	if r.Settings.Fault != "" {
		out = append(out, fmt.Sprintf("a part of the reference was broken on purpose: fault %s", r.Settings.Fault))
	}
	for i := range r.Behaviours {
		if b := &r.Behaviours[i]; b.Level == spec.Control && b.Verdict != spec.Pass {
			out = append(out, fmt.Sprintf("the control %s is %s: %s", b.Name(), b.Verdict, b.Line()))
		}
	}
	for _, c := range r.Controls {
		if c.Verdict != spec.Pass && c.Verdict != spec.Skipped {
			out = append(out, fmt.Sprintf("the control %s of %s %s is %s: %s", c.Name, c.Client, c.Path, c.Verdict, c.Reason))
		}
	}
	for _, e := range r.Errors {
		out = append(out, "the run itself: "+e)
	}
	return out
}

// Outlived are the known deviations whose behaviours passed: their list wants
// mending.
func (r *ConformanceReport) Outlived() []Deviation {
	var out []Deviation
	for _, d := range r.Deviations {
		for i := range r.Behaviours {
			if b := &r.Behaviours[i]; b.ID == d.Behaviour && b.Verdict == spec.Pass {
				out = append(out, d)
				break
			}
		}
	}
	return out
}

// known is the deviation that the system's file lists for what failed; nil:
// none.
func (r *ConformanceReport) known(b *Behaviour) *Deviation {
	if b.Verdict != spec.Fail {
		return nil
	}
	for _, d := range r.Deviations {
		if d.Behaviour == b.ID {
			return &d
		}
	}
	return nil
}
