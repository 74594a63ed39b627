// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// sticking is the healthy termination with a client that sticks to the pod and
// moves away from it.
func sticking() *scene {
	s := healthy()
	s.endpoint(sec, uid, "sticky", "TTF")
	s.endpoint(sec, "uid-b", "sticky", "TTF")
	s.endpoint(del+20*time.Millisecond, uid, "sticky", "FTT")
	s.stream("sticky/http1/new/get", 30, func(x *timeline.Sample) {
		x.Server = uid
		if x.Start >= del+200*time.Millisecond {
			x.Server = "uid-b"
		}
	})
	return s
}

func TestAffinity(t *testing.T) {
	stays := func(s *scene) {
		s.from("sticky", del, shut, func(x *timeline.Sample) { x.Server = uid })
	}
	table(t, sticking, AffinityMoves(), []judged{
		{"healthy", nil, spec.Pass, ""},
		{"it stays", stays, spec.Fail, "T_endpoint + 3.0"},
		{"it stays, and the slice of this Service says ready", func(s *scene) {
			stays(s)
			s.endpoint(del+30*time.Millisecond, uid, "sticky", "TTT")
		}, spec.Fail, ""},
		{"it stays, and no slice ever says terminating", func(s *scene) {
			stays(s)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.Attrs["terminating"] == "true" })
		}, spec.Fail, "T_del + 5.0"},
		{"one comes back after P", func(s *scene) {
			s.from("sticky", 15*sec, 15*sec+40*time.Millisecond, func(x *timeline.Sample) { x.Server = uid })
		}, spec.Fail, ""},
		{"one is lost after P", func(s *scene) {
			s.tl.Ledger = nil // no backend had it
			s.from("sticky", 15*sec, 15*sec+40*time.Millisecond, turn)
		}, spec.Fail, ""},
		{"it stays for less than P", func(s *scene) {
			s.from("sticky", del, 12*sec, func(x *timeline.Sample) { x.Server = uid })
		}, spec.Pass, ""},
		{"it was never at this pod", func(s *scene) {
			s.from("sticky", 0, 40*sec, func(x *timeline.Sample) { x.Server = "uid-b" })
		}, spec.Inconclusive, ""},
		{"what it loses elsewhere is not lost to this pod", func(s *scene) {
			s.from("sticky", 0, 40*sec, func(x *timeline.Sample) { x.Server = "uid-b" })
			s.from("sticky", 15*sec, 16*sec, turn)
		}, spec.Inconclusive, ""},
		{"it never stuck", func(s *scene) {
			n := 0
			s.from("sticky", 0, del, func(x *timeline.Sample) {
				if n++; n%2 == 0 {
					x.Server = "uid-b"
				}
			})
		}, spec.Inconclusive, ""},
		{"no other endpoint of this Service is ready", func(s *scene) {
			stays(s)
			s.endpoint(12*sec, "uid-b", "sticky", "FFF")
		}, spec.Inconclusive, ""},
		{"the pod died too soon", func(s *scene) { s.from("direct", 16*sec, 40*sec, turn) }, spec.Inconclusive, ""},
		{"too little was offered", func(s *scene) {
			n := 0
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
				n++
				return x.Stream.Flow().Path == flow.Sticky && x.Start > del && n%4 != 0
			})
		}, spec.Inconclusive, ""},
	})
}
