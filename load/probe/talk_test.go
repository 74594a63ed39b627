// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

func talking() load.Profile {
	return load.Profile{Flow: flow.Flow{Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 100 * time.Millisecond}, Rate: 100}
}

const greeting = "lastcall-talk/1 pod-1 serving 127.0.0.1\n"

// greeted greets, and reads the client's request.
func greeted(c lingering) (*bufio.Reader, work.Request, error) {
	if _, err := io.WriteString(c, greeting); err != nil {
		return nil, work.Request{}, err
	}
	br := bufio.NewReader(c)
	req, err := work.ReadRequest(br)
	return br, req, err
}

// echoed gives back what comes up to the client's FIN, and says what it was.
func echoed(c lingering, br *bufio.Reader) (work.Trailer, error) {
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(h, c), br)
	return work.Trailer{Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// whole is the server's side of a talk as it should be.
func whole(c lingering) {
	br, _, err := greeted(c)
	if err != nil {
		return
	}
	if t, err := echoed(c, br); err == nil {
		_, _ = io.WriteString(c, t.String())
	}
}

func TestTalk(t *testing.T) {
	for name, delay := range map[string]time.Duration{"near": 0, "far": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			addr := accept(t, func(_ int, c *net.TCPConn) {
				// Nothing may come before the greeting.
				_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				if n, err := c.Read(make([]byte, 1)); n > 0 || outcome(err) != timeline.Timeout {
					t.Errorf("before the greeting: %d bytes, %v", n, err)
				}
				_ = c.SetReadDeadline(time.Time{})
				whole(c)
			})
			p := talking()
			p.Delay = delay
			for _, s := range record(t, testStream(addr, p), 20) {
				want{timeline.OK, timeline.PhaseDone, 0, work.SlowBytes, false}.check(t, s)
				inOrder := s.Start <= s.Dial && s.Dial <= s.First && s.First < s.Sent && s.Sent <= s.End
				// The client's end goes there, and the server's comes back.
				if !inOrder || s.Dial-s.Start < 2*delay || s.Sent-s.First < p.Takes || s.End-s.Sent < 2*delay {
					t.Errorf("times: %s", text(s))
				}
				if s.Server != "pod-1" || s.Want != work.SlowBytes || s.Nth != 1 || s.Conn == 0 {
					t.Errorf("wrong: %s", text(s))
				}
			}
		})
	}
}

func TestHear(t *testing.T) {
	p := talking()
	p.Op = flow.Hear
	// ends greets, reads the request, and ends its half.
	ends := func(c lingering) *bufio.Reader {
		br, req, err := greeted(c)
		if err != nil || req.Word != work.Hear {
			t.Errorf("%+v, %v", req, err)
		}
		_ = c.CloseWrite()
		return br
	}
	for name, c := range map[string]struct {
		want  want
		serve func(c lingering)
	}{
		"heard": {want{timeline.OK, timeline.PhaseDone, 0, work.SlowBytes, false}, func(c lingering) {
			if n, err := io.Copy(io.Discard, ends(c)); err != nil || n != work.SlowBytes {
				t.Errorf("%d bytes, %v", n, err)
			}
		}},
		"reset": {want{timeline.Reset, timeline.PhaseBody, 0, 0, false}, func(c lingering) {
			br := ends(c)
			_, _ = br.ReadByte()
			reset(c)
		}},
		"it says something": {want{timeline.Corrupt, timeline.PhaseBody, 0, 0, false}, func(c lingering) {
			br, _, _ := greeted(c)
			_, _ = io.WriteString(c, "?")
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, br)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			st, r := idleStream(t, testStream(accept(t, func(_ int, tcp *net.TCPConn) { c.serve(tcp) }), p), 0)
			st.attempt(timeline.Monotonic(), 0)
			s := r.all()[0]
			c.want.check(t, s)
			if !s.Failed() && (s.First == 0 || s.Sent-s.First < p.Takes) {
				t.Error(text(s))
			}
		})
	}
}

// talker is the client of a talk, as its server can wait for it.
type talker struct {
	stream *atomic.Pointer[stream]
}

// dialled waits until the client knows that its connection stands.
func (c talker) dialled() {
	for c.stream.Load().opened.Load() == 0 {
		<-time.After(time.Millisecond)
	}
}

func TestTalkOutcomes(t *testing.T) {
	const all = work.SlowBytes
	// Its end never comes: it is cut before.
	long := talking()
	long.Takes = patience
	for name, c := range map[string]struct {
		p     load.Profile
		want  want
		ended bool     // the client had ended its half
		told  []string // of the connection
		serve func(c lingering, client talker)
	}{
		"whole": {talking(), want{timeline.OK, timeline.PhaseDone, 0, all, false}, true, []string{"fin"},
			func(c lingering, _ talker) { whole(c) }},
		"fin before the greeting": {talking(), want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false}, false, []string{"fin"},
			func(lingering, talker) {}},
		"rst before the greeting": {talking(), want{timeline.Reset, timeline.PhaseFirstByte, 0, 0, false}, false, []string{"rst"},
			func(c lingering, client talker) {
				client.dialled()
				reset(c)
			}},
		"fin in the greeting": {talking(), want{timeline.Truncated, timeline.PhaseFirstByte, 0, 0, false}, false, []string{"fin"},
			func(c lingering, _ talker) { _, _ = io.WriteString(c, greeting[:9]) }},
		"another protocol": {talking(), want{timeline.Malformed, timeline.PhaseFirstByte, 0, 0, false}, false, nil,
			func(c lingering, _ talker) {
				_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
				_, _ = io.Copy(io.Discard, c)
			}},
		"no greeting": {talking(), want{timeline.Timeout, timeline.PhaseFirstByte, 0, 0, false}, false, nil,
			func(c lingering, _ talker) {
				if n, _ := io.Copy(io.Discard, c); n > 0 {
					t.Errorf("%d bytes of a client that was not greeted", n)
				}
			}},
		"fin after the greeting": {long, want{timeline.Truncated, timeline.PhaseBody, 0, 0, false}, false, []string{"fin"},
			func(c lingering, _ talker) {
				_, _, _ = greeted(c)
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, c)
			}},
		"rst after the greeting": {long, want{timeline.Reset, timeline.PhaseBody, 0, 0, false}, false, []string{"rst"},
			func(c lingering, _ talker) {
				_, _, _ = greeted(c)
				reset(c)
			}},
		"other bytes": {talking(), want{timeline.Corrupt, timeline.PhaseBody, 0, all, false}, true, nil,
			func(c lingering, _ talker) {
				br, _, err := greeted(c)
				if err != nil {
					return
				}
				_, _ = io.Copy(c, io.LimitReader(br, all-1))
				last, _ := br.ReadByte()
				_, _ = io.Copy(io.Discard, br) // to the client's FIN
				_, _ = c.Write([]byte{^last})
			}},
		"other bytes, and then an rst": {talking(), want{timeline.Corrupt, timeline.PhaseBody, 0, 100, false}, true, []string{"rst"},
			func(c lingering, _ talker) {
				br, _, err := greeted(c)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, br) // to the client's FIN
				_, _ = c.Write(make([]byte, 100))
				arrived(t, c)
				reset(c)
			}},
		"one way ends both": {talking(), want{timeline.Truncated, timeline.PhaseBody, 0, all, false}, true, []string{"fin"},
			func(c lingering, _ talker) {
				if br, _, err := greeted(c); err == nil {
					_, _ = echoed(c, br)
				}
			}},
		"rst instead of the trailer": {talking(), want{timeline.Reset, timeline.PhaseBody, 0, all, false}, true, []string{"rst"},
			func(c lingering, _ talker) {
				br, _, err := greeted(c)
				if err != nil {
					return
				}
				_, _ = echoed(c, br)
				arrived(t, c)
				reset(c)
			}},
		"fin in the trailer": {talking(), want{timeline.Truncated, timeline.PhaseBody, 0, all, false}, true, []string{"fin"},
			func(c lingering, _ talker) {
				if br, _, err := greeted(c); err == nil {
					up, _ := echoed(c, br)
					_, _ = io.WriteString(c, strings.TrimSuffix(up.String(), "\n"))
				}
			}},
		"a trailer of something else": {talking(), want{timeline.Corrupt, timeline.PhaseBody, 0, all, false}, true, nil,
			func(c lingering, _ talker) {
				if br, _, err := greeted(c); err == nil {
					up, _ := echoed(c, br)
					up.SHA256 = strings.Repeat("0", len(up.SHA256))
					_, _ = io.WriteString(c, up.String())
				}
			}},
		"a trailer of fewer bytes": {talking(), want{timeline.Corrupt, timeline.PhaseBody, 0, all, false}, true, nil,
			func(c lingering, _ talker) {
				if br, _, err := greeted(c); err == nil {
					up, _ := echoed(c, br)
					up.Bytes--
					_, _ = io.WriteString(c, up.String())
				}
			}},
		"no trailer": {talking(), want{timeline.Corrupt, timeline.PhaseBody, 0, all, false}, true, nil,
			func(c lingering, _ talker) {
				if br, _, err := greeted(c); err == nil {
					_, _ = echoed(c, br)
					_, _ = io.WriteString(c, "thanks\n")
				}
			}},
		"bytes behind the trailer": {talking(), want{timeline.Corrupt, timeline.PhaseBody, 0, all, false}, true, nil,
			func(c lingering, _ talker) {
				if br, _, err := greeted(c); err == nil {
					up, _ := echoed(c, br)
					_, _ = io.WriteString(c, up.String()+"?")
				}
			}},
		"no answer to the client's end": {talking(), want{timeline.Timeout, timeline.PhaseBody, 0, all, false}, true, nil,
			func(c lingering, _ talker) {
				if br, _, err := greeted(c); err == nil {
					_, _ = echoed(c, br)
				}
			}},
	} {
		for kind, delay := range map[string]time.Duration{"near": 0, "far": 10 * time.Millisecond} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				client := talker{new(atomic.Pointer[stream])}
				p := c.p
				p.Delay = delay
				var x timeline.Sample
				if c.want.outcome == timeline.Timeout {
					x = timedOut(t, p, func(end lingering) { c.serve(end, client) })
				} else {
					st, r := idleStream(t, testStream(accept(t, func(_ int, tcp *net.TCPConn) { c.serve(tcp, client) }), p), 0)
					client.stream.Store(st)
					st.attempt(timeline.Monotonic(), 0)
					x = r.all()[0]
					if got := r.told(x.Conn); !slices.Equal(got, c.told) {
						t.Errorf("the connection told %q, want %q", got, c.told)
					}
				}
				c.want.check(t, x)
				if c.ended != (x.Sent > 0) {
					t.Errorf("the client's end: %s", text(x))
				}
			})
		}
	}
}

// What becomes of a connection on which nothing is said is told by its frames;
// its sample says that it stood.
func TestMute(t *testing.T) {
	for _, proto := range flow.WebSocket.Protocols() {
		for name, c := range map[string]struct {
			end  func(c *net.TCPConn)
			told []string
		}{
			"fin": {func(c *net.TCPConn) { _ = c.CloseWrite() }, []string{"fin", "close why=broken"}},
			"rst": {func(c *net.TCPConn) { reset(c) }, []string{"rst", "close why=broken"}},
			"408": {func(c *net.TCPConn) {
				fmt.Fprint(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n")
				_ = c.CloseWrite()
			}, []string{"fin", "close why=broken"}},
		} {
			t.Run(string(proto)+"/"+name, func(t *testing.T) {
				g := noLeaks(t)
				begin := make(chan struct{})
				addr := accept(t, func(_ int, tcp *net.TCPConn) {
					<-begin
					c.end(tcp)
					if n, _ := io.Copy(io.Discard, tcp); n > 0 {
						t.Errorf("the client said %d bytes", n)
					}
				})
				p := idleFor(proto, patience)
				p.Op = flow.Mute
				st, r := idleStream(t, testStream(addr, p), 0)
				st.attempt(timeline.Monotonic(), 0)
				x := r.all()[0]
				want{timeline.OK, timeline.PhaseDone, 0, 0, false}.check(t, x)
				if x.Conn != 1 || x.Dial == 0 || x.Sent != 0 || x.Server != "" {
					t.Errorf("wrong: %s", text(x))
				}
				if got := r.told(1); len(got) > 0 {
					t.Errorf("told before the end: %q", got)
				}
				close(begin)
				g.Eventually(func() []string { return r.told(1) }).WithTimeout(patience).
					WithPolling(time.Millisecond).Should(gomega.Equal(c.told))
			})
		}
	}
}

// A client that has said nothing for its time leaves by itself, and when the
// pacing stops.
func TestMuteLeaves(t *testing.T) {
	for why, takes := range map[string]time.Duration{"idle": 10 * time.Millisecond, "stop": patience} {
		t.Run(why, func(t *testing.T) {
			g := noLeaks(t)
			addr := accept(t, func(_ int, c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
			p := idleFor(flow.HTTP1, takes)
			p.Op = flow.Mute
			st, r := idleStream(t, testStream(addr, p), 0)
			st.attempt(timeline.Monotonic(), 0)
			if why == "stop" {
				st.stop()
			}
			g.Eventually(func() []string { return r.told(1) }).WithTimeout(patience).
				WithPolling(time.Millisecond).Should(gomega.Equal([]string{"close why=" + why}))
		})
	}
}
