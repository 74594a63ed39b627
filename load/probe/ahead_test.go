// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
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
			samples := atOnce(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Op: flow.Ahead, Conns: flow.New, Takes: time.Millisecond}}), 1)
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

// What becomes of a POST that is sent behind a GET, while that is worked on.
func TestAheadPost(t *testing.T) {
	const takes = 200 * time.Millisecond
	ok := want{timeline.OK, timeline.PhaseDone, 200, 256, false}
	last := want{timeline.OK, timeline.PhaseDone, 200, 256, true}
	left := want{timeline.BehindClose, timeline.PhaseWrite, 0, 0, false}
	const whole, closes = "Content-Length: 256", "Connection: close"
	first := func(c lingering, br *bufio.Reader, lines ...string) *http.Request {
		req, err := http.ReadRequest(br)
		if err != nil {
			t.Error(err)
			return nil
		}
		<-time.After(takes / 2)
		fmt.Fprint(c, answer(req.Header.Get(work.HeaderID), 256, append([]string{"200 OK", whole}, lines...)...))
		return req
	}
	for name, c := range map[string]struct {
		first, second want
		end           timeline.FrameKind
		serve         func(c lingering, br *bufio.Reader)
	}{
		"both answered": {ok, want{timeline.OK, timeline.PhaseDone, 200, work.AheadBytes, false}, "", func(c lingering, br *bufio.Reader) {
			first(c, br)
			req, err := http.ReadRequest(br)
			if err != nil {
				t.Error(err)
				return
			}
			n, _ := io.Copy(io.Discard, req.Body)
			id := req.Header.Get(work.HeaderID)
			text := fmt.Sprintf(`{"bytes":%d,"sha256":%q}`, n, work.Sum(id, work.AheadBytes))
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}},
		"closed in stages": {last, left, timeline.FrameFIN, func(c lingering, br *bufio.Reader) {
			first(c, br, closes)
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, br)
		}},
		"closed at once": {last, left, timeline.FrameRST, func(c lingering, br *bufio.Reader) {
			first(c, br, closes)
			arrived(t, c)
			ignored(t, c)
			_ = c.Close()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := accept(t, func(_ int, conn *net.TCPConn) { c.serve(conn, bufio.NewReader(conn)) })
			st, r := idleStream(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Op: flow.AheadPost, Conns: flow.New, Takes: takes}}), 1)
			st.attempt(timeline.Monotonic(), 0)
			samples := r.all()
			if len(samples) != 2 {
				t.Fatalf("%d samples", len(samples))
			}
			slices.SortFunc(samples, func(a, b timeline.Sample) int { return a.Nth - b.Nth })
			c.first.check(t, samples[0])
			if c.second == left && samples[1].Phase == timeline.PhaseFirstByte {
				c.second.phase = timeline.PhaseFirstByte // a busy machine answers when all of it has gone up
			}
			c.second.check(t, samples[1])
			firstFrame := func() string { return strings.Join(append(r.told(1), "")[:1], "") }
			gomega.NewWithT(t).Eventually(firstFrame).WithTimeout(patience).Should(gomega.Equal(string(c.end)))
		})
	}
}
