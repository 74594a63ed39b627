// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/work"
)

// Every protocol, connection and operation against a healthy server.
func TestHealthy(t *testing.T) {
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		for _, conns := range []load.Conns{load.New, load.Reused} {
			for _, op := range []load.Op{load.Get, load.Slow, load.Chunked, load.Upload, load.Continue} {
				p := load.Profile{Protocol: proto, Conns: conns, Op: op}
				if op != load.Get {
					p.Takes = 250 * time.Millisecond
				}
				t.Run(string(proto)+"/"+string(conns)+"/"+string(op), func(t *testing.T) {
					noLeaks(t)
					addr, _ := serve(t, backend)
					samples := record(t, testStream(addr, p), 60)
					ids := map[string]bool{}
					reused := 0
					for _, s := range samples {
						if s.Outcome != timeline.OK || s.Phase != timeline.PhaseDone || s.Err != "" {
							t.Fatalf("not ok: %s", text(s))
						}
						want := int64(work.SlowBytes)
						if op == load.Get {
							want = work.SmallBytes
						}
						if s.Got != want || s.Want != want || s.Status != 200 || s.Server != "pod-1" {
							t.Errorf("wrong: %s", text(s))
						}
						if ids[s.ID] {
							t.Errorf("ID twice: %s", s.ID)
						}
						ids[s.ID] = true
						if s.Conn == 0 || s.Nth == 0 || s.Local == "" || s.Addr != addr {
							t.Errorf("connection: %s", text(s))
						}
						if s.Nth > 1 {
							reused++
						}
						if (s.Nth == 1) != (s.Dial != 0) {
							t.Errorf("dial: %s", text(s))
						}
						inOrder := s.Due <= s.Start && s.Start <= s.Sent && s.Sent <= s.First && s.First <= s.End && s.Dial <= s.Sent
						if !inOrder {
							t.Errorf("times: %s", text(s))
						}
						if took := s.End - s.Start; took < p.Takes {
							t.Errorf("took %v: %s", took, text(s))
						}
						if s.LastOnConn || s.Saturated {
							t.Errorf("last or saturated: %s", text(s))
						}
					}
					if conns == load.New && reused > 0 || conns == load.Reused && reused == 0 {
						t.Errorf("%d of %d samples on a reused connection", reused, len(samples))
					}
				})
			}
		}
	}
}
