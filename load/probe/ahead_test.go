// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/work"
)

// What becomes of two requests that are sent at once.
func TestAhead(t *testing.T) {
	ok := want{timeline.OK, timeline.PhaseDone, 200, 256, false}
	last := want{timeline.OK, timeline.PhaseDone, 200, 256, true}
	left := want{timeline.BehindClose, timeline.PhaseFirstByte, 0, 0, false}
	const whole, closes = "Content-Length: 256", "Connection: close"
	for name, c := range map[string]struct {
		first, second want
		serve         func(c lingering, ids []string)
	}{
		"both answered": {ok, ok, func(c lingering, ids []string) {
			fmt.Fprint(c, answer(ids[0], 256, "200 OK", whole), answer(ids[1], 256, "200 OK", whole))
		}},
		"the second one's answer says close": {ok, last, func(c lingering, ids []string) {
			fmt.Fprint(c, answer(ids[0], 256, "200 OK", whole), answer(ids[1], 256, "200 OK", whole, closes))
		}},
		"the first one's answer says close": {last, left, func(c lingering, ids []string) {
			fmt.Fprint(c, answer(ids[0], 256, "200 OK", whole, closes))
		}},
		"and then a reset": {last, left, func(c lingering, ids []string) {
			fmt.Fprint(c, answer(ids[0], 256, "200 OK", whole, closes))
			arrived(t, c)
			reset(c)
		}},
		"and no end": {last, left, func(c lingering, ids []string) {
			fmt.Fprint(c, answer(ids[0], 256, "200 OK", whole, closes))
			_, _ = io.Copy(io.Discard, c)
		}},
		"it says close and goes on": {last, ok, func(c lingering, ids []string) {
			fmt.Fprint(c, answer(ids[0], 256, "200 OK", whole, closes), answer(ids[1], 256, "200 OK", whole))
		}},
		"closed without saying so": {ok, want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false}, func(c lingering, ids []string) {
			fmt.Fprint(c, answer(ids[0], 256, "200 OK", whole))
		}},
		"closed without a byte": {
			want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false}, want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false},
			func(lingering, []string) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := accept(t, func(_ int, conn *net.TCPConn) {
				br := bufio.NewReader(conn)
				var ids []string
				for range 2 {
					req, err := http.ReadRequest(br)
					if err != nil {
						t.Error(err)
						return
					}
					ids = append(ids, req.Header.Get(work.HeaderID))
				}
				c.serve(conn, ids)
			})
			samples := atOnce(t, testStream(addr, load.Profile{Protocol: load.HTTP1, Op: load.Ahead, Conns: load.New, Takes: time.Millisecond}), 1)
			if len(samples) != 2 {
				t.Fatalf("%d samples", len(samples))
			}
			slices.SortFunc(samples, func(a, b timeline.Sample) int { return a.Nth - b.Nth })
			c.first.check(t, samples[0])
			c.second.check(t, samples[1])
			one, two := samples[0], samples[1]
			if one.ID == two.ID || one.Conn != two.Conn || one.Nth != 1 || two.Nth != 2 || one.Dial == 0 || two.Dial != 0 || one.Sent != two.Sent || one.Local != two.Local {
				t.Errorf("they are not two of one connection: %s and %s", text(one), text(two))
			}
		})
	}
}
