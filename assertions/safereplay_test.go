// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestReplaysSafely(t *testing.T) {
	const stream = "service/http1/reused/post/11s"
	// good has three POSTs cut at the deadline, and many others.
	good := func(s *scene) {
		s.through("service/http1/reused/post/500ms", 20, nil)
		for i := range 3 {
			at := 9*sec + time.Duration(i)
			id := fmt.Sprintf("cut-%d", i)
			s.add(timeline.Sample{
				Stream: flow.Named(stream), ID: id, Conn: uint64(i), Nth: 2, Start: at, End: wireDeadline, Outcome: timeline.Status, Phase: timeline.PhaseDone, Status: 502,
			})
			s.tl.Ledger = append(s.tl.Ledger,
				timeline.Entry{At: at, ID: id, Step: timeline.Begin, Pod: uid, Method: "POST"},
				timeline.Entry{At: wireDeadline, ID: id, Step: timeline.Done, Pod: uid, Method: "POST"})
		}
	}
	again := func(s *scene, id, method string) {
		s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: wireDeadline + 1, ID: id, Step: timeline.Begin, Pod: "uid-b", Method: method})
	}
	check := ReplaysSafely()
	judgeWire(t, []wireCase{
		{"once", check, good, spec.Pass},
		{"sent again", check, func(s *scene) { good(s); again(s, "cut-0", "POST") }, spec.Fail},
		{"sent again, and answered", check, func(s *scene) {
			good(s)
			again(s, "cut-0", "POST")
			s.each(func(x *timeline.Sample) {
				if x.ID == "cut-0" {
					x.Outcome, x.Status = timeline.OK, 200
				}
			})
			s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: wireDeadline + 2, ID: "cut-0", Step: timeline.Done, Pod: "uid-b", Method: "POST", Whole: true})
		}, spec.Fail},
		{"a GET sent again", check, func(s *scene) {
			good(s)
			s.through("service/http1/reused/get", 5, nil)
			for i := range s.tl.Ledger {
				if x := &s.tl.Ledger[i]; x.Method == "" {
					x.Method = "GET"
				}
			}
			again(s, fmt.Sprintf("service/http1/reused/get#%d", 7*sec), "GET")
		}, spec.Pass},
		{"a call sent again is another's", check, func(s *scene) {
			good(s)
			s.through("service/h2c/reused/grpc-unary", 5, nil)
			again(s, fmt.Sprintf("service/h2c/reused/grpc-unary#%d", 7*sec), "POST")
		}, spec.Pass},
		{"none was cut", check, func(s *scene) { s.through("service/http1/reused/post/500ms", 20, nil) }, spec.Inconclusive},
		{"few were offered", check, func(s *scene) {
			good(s)
			s.each(func(x *timeline.Sample) { x.Nth = 1 })
		}, spec.Inconclusive},
		{"what goes on in TLS stands for no other", check, func(s *scene) {
			good(s)
			s.each(func(x *timeline.Sample) {
				x.Stream = flow.Named(strings.Replace(x.Stream.String(), "/http1/", "/http1-backendtls/", 1))
			})
		}, spec.Inconclusive},
		{"sent again to a backend in TLS", check, func(s *scene) {
			good(s)
			s.through("service/http1-backendtls/reused/post/500ms", 5, nil)
			again(s, fmt.Sprintf("service/http1-backendtls/reused/post/500ms#%d", 7*sec), "POST")
		}, spec.Fail},
		{"the ledger's tail is missing", check, func(s *scene) {
			good(s)
			s.tl.Ledger = s.tl.Ledger[10:]
		}, spec.Inconclusive},
	})
}
