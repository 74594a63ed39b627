// SPDX-License-Identifier: Apache-2.0

// Package match holds Gomega matchers for a recording, for specs of a vendor's own:
//
//	recording, err := behaviour.Open("lastcall-report/20261125-101500", "h2.goaway")
//	Expect(err).NotTo(HaveOccurred())
//	Expect(recording).To(match.HaveReceivedGoAway().OverAtLeast(10))
//
// A matcher is a behaviour's check, with floors that are the caller's to set. It judges as
// the report does: with the doubts about the recording, and with what the run's controls say
// of its clients. What is Inconclusive is no evidence for either side, so it fails both To and
// NotTo; and so does a recording that broke, and a rule that does not apply.
//
// It stands beside the checks and imports suites/behaviour, which has the judge, because a
// judge of its own would be a second opinion (docs/adr/0010). Only tests import it.
package match

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onsi/gomega/format"
	"github.com/onsi/gomega/types"

	"github.com/lastcall-dev/lastcall/assertions"
	_ "github.com/lastcall-dev/lastcall/suites/all" // the behaviours
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/pool"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Matcher matches a *behaviour.Recording that passes a check. Each of its methods that set
// something returns another Matcher.
type Matcher struct {
	// name is the matcher's as it is written, and id the behaviour's whose check it is.
	name, id string
	check    func(own ...assertions.Floor) assertions.Check
	// wrong is why the matcher can't be put to anything.
	wrong error
	own   []assertions.Floor
	// told is what the last Match found.
	told string
}

var _ types.GomegaMatcher = (*Matcher)(nil)

// HaveNoFailedRequests matches a recording in which no request through the Service failed,
// from the first D to the last exit + P: rollout.zero-failed. OverAtLeast counts these
// requests: 30,000.
func HaveNoFailedRequests() *Matcher {
	return &Matcher{name: "HaveNoFailedRequests", id: "rollout.zero-failed", check: assertions.ZeroFailed}
}

// HaveReceivedGoAway matches a recording in which each HTTP/2 connection that the draining
// instances ended got a GOAWAY first: h2.goaway. OverAtLeast counts the connections that
// each instance told or ended: 5.
func HaveReceivedGoAway() *Matcher {
	return &Matcher{name: "HaveReceivedGoAway", id: "h2.goaway", check: assertions.SendsGoAway}
}

// HaveClosedWithNotify matches a recording in which each TLS connection that stood at D, and
// that the instance ended, got a close_notify before the FIN: tls.close-notify. OverAtLeast
// counts these connections, for each instance: 5.
func HaveClosedWithNotify() *Matcher {
	return &Matcher{name: "HaveClosedWithNotify", id: "tls.close-notify", check: assertions.CloseNotifyFirst}
}

// HaveEvictedFromPools matches a recording in which the proxy held no socket to a backend 1 s
// after that had exited: pool.evicts. OverAtLeast counts the sockets to each backend at its
// D: 1.
func HaveEvictedFromPools() *Matcher {
	return &Matcher{name: "HaveEvictedFromPools", id: "pool.evicts", check: pool.Evicts}
}

// HaveServedUntil matches a recording in which each instance served every new connection that
// was dialled at its own address until so long after its D: pod.accept-after-sigterm, which
// asks it until P. OverAtLeast counts these connections, for each instance: 50. The time is
// above 0; an instance that leaves earlier has not served until then.
func HaveServedUntil(after time.Duration) *Matcher {
	m := &Matcher{
		name: fmt.Sprintf("HaveServedUntil(%s)", after), id: "pod.accept-after-sigterm",
		check: func(own ...assertions.Floor) assertions.Check { return assertions.AcceptsUntil(after, own...) },
	}
	if after <= 0 {
		m.wrong = fmt.Errorf("%s: the time is counted from D, and has to be above 0", m.name)
	}
	return m
}

// OverAtLeast sets how many the matcher has to have seen at least to match: of what, each
// matcher says. With less the recording is Inconclusive.
func (m *Matcher) OverAtLeast(n int) *Matcher { return m.WithFloor(m.check().Floors[0].Name, n) }

// WithFloor sets a floor of the check by its name, as the report's evidence has it ("requests
// on reused connections offered from D to exit + P"). A floor of 0 asks for nothing, where the
// recording has no such traffic; one of the floors has to stay above 0. A name that is none of
// the check's is an error of Match, which lists them.
func (m *Matcher) WithFloor(name string, n int) *Matcher {
	set := *m
	set.own = append(slices.Clone(m.own), assertions.Floor{Name: name, N: n})
	return &set
}

// Match says whether the recording passes. Neither a pass nor a failure is an error: another
// type, a floor that is none, and all that is Inconclusive, broken or not to be asked.
func (m *Matcher) Match(actual any) (bool, error) {
	r, ok := actual.(*behaviour.Recording)
	if !ok || r == nil {
		return false, fmt.Errorf("%s takes a *behaviour.Recording: behaviour.Open reads one from a run's directory. Got:\n%s", m.name, format.Object(actual, 1))
	}
	b, err := m.behaviour()
	if err != nil {
		return false, err
	}
	judged, told := r.Judge(b)
	m.told = strings.TrimRight(told, "\n")
	switch judged.Verdict {
	case spec.Pass, spec.Fail:
		return judged.Verdict == spec.Pass, nil
	}
	return false, fmt.Errorf("%s: %s, which is neither To nor NotTo\n\n%s\n\n%s", m.name, judged.Verdict, m.told, whatToDo[judged.Verdict])
}

// whatToDo is how one comes to a verdict where there is none.
var whatToDo = map[spec.Verdict]string{
	spec.Inconclusive: "What to do: record it again, in a run with its control, on idle cores (--wait-idle 10m), and under the traffic that the matcher counts. Or ask for less (OverAtLeast, WithFloor), where less is enough for what the spec says.",
	spec.Error:        "What to do: mend what broke, and record it again.",
	spec.Skipped:      "What to do: leave the matcher out; its rule asks nothing of such a system.",
}

// behaviour is the behaviour, with the matcher's check alone.
func (m *Matcher) behaviour() (behaviour.Behaviour, error) {
	b, ok := behaviour.Find(m.id)
	if !ok {
		return b, fmt.Errorf("%s: the catalogue has no behaviour %q any more", m.name, m.id)
	}
	check := m.check(m.own...)
	named := func(f assertions.Floor) func(assertions.Floor) bool {
		return func(o assertions.Floor) bool { return o.Name == f.Name }
	}
	errs := []error{m.wrong}
	for _, o := range m.own {
		if o.N < 0 {
			errs = append(errs, fmt.Errorf("%s: the floor of %q is %d, and has to be 0 or more", m.name, o.Name, o.N))
		}
		if !slices.ContainsFunc(check.Floors, named(o)) {
			var names []string
			for _, f := range check.Floors {
				names = append(names, fmt.Sprintf("%q", f.Name))
			}
			errs = append(errs, fmt.Errorf("%s has no floor called %q: it has %s", m.name, o.Name, strings.Join(names, ", ")))
		}
	}
	if !slices.ContainsFunc(check.Floors, func(f assertions.Floor) bool { return f.N > 0 }) {
		errs = append(errs, fmt.Errorf("%s: all of its floors are 0, and it would match a recording that shows nothing: leave one above 0", m.name))
	}
	b.Checks = []assertions.Check{check}
	return b, errors.Join(errs...)
}

// FailureMessage is the finding that broke the rule, as report.txt has it.
func (m *Matcher) FailureMessage(any) string { return m.name + " does not hold:\n\n" + m.told }

// NegatedFailureMessage is what the pass stands on.
func (m *Matcher) NegatedFailureMessage(any) string { return m.name + " holds:\n\n" + m.told }
