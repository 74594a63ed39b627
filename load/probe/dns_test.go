// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

const queried = "headless.ns.svc.cluster.local."

// nameServer answers each datagram as script says, nil with nothing, and
// counts them.
func nameServer(t *testing.T, script func(query dnsmessage.Message) []byte) (addr string, queries *atomic.Int64) {
	t.Helper()
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	queries = new(atomic.Int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		b := make([]byte, 2000)
		for {
			n, from, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			queries.Add(1)
			var q dnsmessage.Message
			if err := q.Unpack(b[:n]); err != nil {
				t.Errorf("a query that is none: %v", err)
				continue
			}
			if reply := script(q); reply != nil {
				_, _ = c.WriteToUDPAddrPort(reply, from)
			}
		}
	})
	t.Cleanup(func() { _ = c.Close(); wg.Wait() })
	return c.LocalAddr().String(), queries
}

// replyTo is a good answer without records, changed.
func replyTo(q dnsmessage.Message, change func(m *dnsmessage.Message)) []byte {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true, RecursionDesired: q.RecursionDesired},
		Questions: q.Questions,
	}
	change(&m)
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// answerWith adds records: names begin with a letter, addresses don't.
func answerWith(m *dnsmessage.Message, records ...string) {
	for _, r := range records {
		h := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5}
		res := dnsmessage.Resource{Header: h}
		if a, err := netip.ParseAddr(r); err != nil {
			res.Body = &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(r)}
		} else if a.Is4() {
			res.Body = &dnsmessage.AResource{A: a.As4()}
		} else {
			res.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		}
		m.Answers = append(m.Answers, res)
	}
}

func lookupStream(addr string, ipv6 bool) load.Stream {
	// Slowly: a name server that stands still for seconds must not lose a datagram.
	s := testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.DNS, Conns: flow.New, Op: flow.Lookup}, Rate: 20})
	s.Query, s.IPv6 = queried, ipv6
	return s
}

func TestLookupOutcomes(t *testing.T) {
	same := func(*dnsmessage.Message) {}
	for name, c := range map[string]struct {
		outcome timeline.Outcome
		phase   timeline.Phase
		status  int
		answers []string
		script  func(q dnsmessage.Message) []byte
	}{
		"addresses": {timeline.OK, timeline.PhaseDone, 0, []string{"10.0.0.1", "10.0.0.10", "10.0.0.9"}, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { answerWith(m, "10.0.0.9", "10.0.0.10", "10.0.0.1") })
		}},
		"behind an alias, and not all of this type": {timeline.OK, timeline.PhaseDone, 0, []string{"10.0.0.9"}, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { answerWith(m, "other.ns.", "fd00::9", "10.0.0.9") })
		}},
		"the name in capitals": {timeline.OK, timeline.PhaseDone, 0, []string{"10.0.0.9"}, func(q dnsmessage.Message) []byte {
			q.Questions[0].Name = dnsmessage.MustNewName(strings.ToUpper(queried))
			return replyTo(q, func(m *dnsmessage.Message) { answerWith(m, "10.0.0.9") })
		}},
		"no address": {timeline.OK, timeline.PhaseDone, 0, nil, func(q dnsmessage.Message) []byte { return replyTo(q, same) }},
		"no name": {timeline.OK, timeline.PhaseDone, 0, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeNameError })
		}},
		"server failure": {timeline.Status, timeline.PhaseBody, 2, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeServerFailure })
		}},
		"not understood, with no question": {timeline.Status, timeline.PhaseBody, 1, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { m.RCode, m.Questions = dnsmessage.RCodeFormatError, nil })
		}},
		"another version of EDNS": {timeline.Status, timeline.PhaseBody, 16, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) {
				var h dnsmessage.ResourceHeader
				_ = h.SetEDNS0(1232, 16, false)
				m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
			})
		}},
		"truncated": {timeline.Truncated, timeline.PhaseBody, 0, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { m.Truncated = true; answerWith(m, "10.0.0.9") })
		}},
		"another ID": {timeline.Malformed, timeline.PhaseBody, 0, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { m.ID++ })
		}},
		"another name": {timeline.Malformed, timeline.PhaseBody, 0, nil, func(q dnsmessage.Message) []byte {
			q.Questions[0].Name = dnsmessage.MustNewName("x" + queried)
			return replyTo(q, same)
		}},
		"another type": {timeline.Malformed, timeline.PhaseBody, 0, nil, func(q dnsmessage.Message) []byte {
			q.Questions[0].Type = dnsmessage.TypeAAAA
			return replyTo(q, same)
		}},
		"no question": {timeline.Malformed, timeline.PhaseBody, 0, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { m.Questions = nil })
		}},
		"the query itself": {timeline.Malformed, timeline.PhaseBody, 0, nil, func(q dnsmessage.Message) []byte {
			return replyTo(q, func(m *dnsmessage.Message) { m.Response = false })
		}},
		"no DNS": {timeline.Malformed, timeline.PhaseBody, 0, nil, func(dnsmessage.Message) []byte { return []byte("hello") }},
		"cut short": {timeline.Malformed, timeline.PhaseBody, 0, nil, func(q dnsmessage.Message) []byte {
			b := replyTo(q, func(m *dnsmessage.Message) { answerWith(m, "10.0.0.9") })
			return b[:len(b)-3]
		}},
		"silence": {timeline.Timeout, timeline.PhaseFirstByte, 0, nil, func(dnsmessage.Message) []byte { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			addr, queries := nameServer(t, c.script)
			s := lookupStream(addr, false)
			if c.outcome == timeline.Timeout {
				// All that has to come before is to send a datagram.
				s.Timeout = 10 * time.Second
			}
			samples := atOnce(t, s, 5)
			locals := map[string]bool{}
			for i, s := range samples {
				want{outcome: c.outcome, phase: c.phase, status: c.status}.check(t, s)
				if !slices.Equal(s.Answers, c.answers) {
					t.Errorf("answers %q, want %q", s.Answers, c.answers)
				}
				if s.Conn == 0 || s.Nth != 1 || s.Local == "" || s.Addr != addr || s.Sent < s.Start || s.First != 0 && s.First < s.Sent {
					t.Errorf("sample %d: %s", i, text(s))
				}
				locals[s.Local] = true
			}
			if n := int(queries.Load()); n != len(samples) {
				t.Errorf("%d samples, and the server saw %d queries", len(samples), n)
			}
			if len(locals) < 2 {
				t.Errorf("%d samples from %d sockets", len(samples), len(locals))
			}
		})
	}
}

// The query is what a stub resolver's would be.
func TestLookupAsks(t *testing.T) {
	for ipv6, of := range map[bool]dnsmessage.Type{false: dnsmessage.TypeA, true: dnsmessage.TypeAAAA} {
		noLeaks(t)
		var mu sync.Mutex
		ids := map[uint16]bool{}
		addr, _ := nameServer(t, func(q dnsmessage.Message) []byte {
			if len(q.Questions) != 1 || q.Questions[0].Name.String() != queried || q.Questions[0].Type != of || q.Questions[0].Class != dnsmessage.ClassINET {
				t.Errorf("asked %v", q.Questions)
			}
			if !q.RecursionDesired || q.Response || len(q.Additionals) != 1 || q.Additionals[0].Header.Type != dnsmessage.TypeOPT || q.Additionals[0].Header.Class != 1232 {
				t.Errorf("asked with %+v and %v", q.Header, q.Additionals)
			}
			mu.Lock()
			ids[q.ID] = true
			mu.Unlock()
			return replyTo(q, func(m *dnsmessage.Message) { answerWith(m, "10.0.0.1", "fd00::1") })
		})
		for _, s := range record(t, lookupStream(addr, ipv6), 20) {
			want := []string{"10.0.0.1"}
			if ipv6 {
				want = []string{"fd00::1"}
			}
			if s.Outcome != timeline.OK || !slices.Equal(s.Answers, want) {
				t.Errorf("want %q: %s", want, text(s))
			}
		}
		mu.Lock()
		if len(ids) < 10 {
			t.Errorf("%d IDs of 20 queries", len(ids))
		}
		mu.Unlock()
	}
}

// Nobody listens: ICMP says so.
func TestLookupRefused(t *testing.T) {
	noLeaks(t)
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	for _, x := range record(t, lookupStream(c.LocalAddr().String(), false), 10) {
		want{outcome: timeline.Refused, phase: timeline.PhaseFirstByte}.check(t, x)
	}
}

// A socket that was given the port it asks at would answer itself.
func TestLookupIsApart(t *testing.T) {
	noLeaks(t)
	gone, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := gone.LocalAddr().(*net.UDPAddr)
	_ = gone.Close()
	dials := 0
	c, err := apart(server.AddrPort(), func() (*net.UDPConn, error) {
		dials++
		if dials == 1 {
			return net.DialUDP("udp", server, server)
		}
		return net.DialUDP("udp", nil, server)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if dials != 2 || c.LocalAddr().String() == server.String() {
		t.Errorf("%d dials, connected from %v to %v", dials, c.LocalAddr(), server)
	}
}
