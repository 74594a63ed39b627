// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// wireFrames are frames as an HTTP/2 server ends a connection with.
func wireFrames() []byte {
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
	_ = f.WriteSettingsAck()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x88}, EndHeaders: true})
	_ = f.WriteData(1, true, []byte("body"))
	_ = f.WriteGoAway(unlimited, http2.ErrCodeNo, nil)
	_ = f.WritePing(false, [8]byte{1})
	_ = f.WriteRSTStream(3, http2.ErrCodeRefusedStream)
	_ = f.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
	return b.Bytes()
}

// Whatever a server says, an attempt ends with an outcome, the connection is let
// go, and an answer passes only if all of it is there.
func FuzzAnswer(f *testing.F) {
	settings, tail := wireFrames()[:24], wireFrames()[24:]
	for _, p := range []string{
		answer("tried-1", 256, "200 OK", "Content-Length: 256"),
		answer("tried-1", 256, "200 OK", "Content-Length: 256", "Connection: close"),
		answer("tried-1", 256, "200 OK", "Content-Length: 256")[:200],
		"HTTP/1.1 100 Continue\r\n\r\n" + answer("tried-1", 256, "200 OK", "Content-Length: 256"),
		"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nto the end", "HTTP/1.1 408 Request Timeout\r\n\r\n", "HTTP/9", "\r\n\r\n", "",
	} {
		f.Add(false, []byte(p))
	}
	f.Add(true, wireFrames())
	f.Add(true, settings)
	f.Add(true, slices.Concat(settings, tail))
	f.Add(true, []byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Fuzz(func(t *testing.T, two bool, data []byte) {
		proto := flow.HTTP1
		if two {
			proto = flow.H2C
		}
		synctest.Test(t, func(t *testing.T) {
			f, server := inMemory(t, 0)
			s, r := unpaced(t, testStream("127.0.0.1:80", reused(proto)))
			l := linked(t, s, f)
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := server.Write(data); err == nil {
					_ = server.CloseWrite()
				}
			})
			wg.Go(func() {
				b := make([]byte, 4<<10)
				for {
					if _, err := server.Read(b); err != nil {
						return
					}
				}
			})
			a, fate := tried(t.Context(), s, l)
			switch {
			case a.Outcome == "":
				t.Errorf("no outcome: %+v", a.Sample)
			case a.Outcome == timeline.OK && (a.Got != a.Want || a.Want != 256 || a.Phase != timeline.PhaseDone || a.Status != 200):
				t.Errorf("passed: %+v", a.Sample)
			case a.Outcome != timeline.OK && (a.Err == "" || fate == keep && a.Outcome != timeline.Status && a.Outcome != timeline.Corrupt):
				t.Errorf("fate %d after %+v", fate, a.Sample)
			case a.End == 0:
				t.Errorf("no end: %+v", a.Sample)
			}
			// As the stream's own end does, with the connection held.
			s.settle(l, drop)
			s.parting.Wait()
			_ = server.Close()
			wg.Wait()
			for _, f := range r.told(l.num) {
				if kind, _, _ := strings.Cut(f, " "); kind == "" {
					t.Errorf("a frame of no kind: %q", f)
				}
			}
		})
	})
}

// An answer of a name server is judged, whatever it is, and passes only if it
// answers the question.
func FuzzLookup(f *testing.F) {
	const id = 0x1234
	s := lookupStream("127.0.0.1:53", false)
	q, err := newInquiry(s)
	if err != nil {
		f.Fatal(err)
	}
	var query dnsmessage.Message
	if err := query.Unpack(q.message(id)); err != nil {
		f.Fatal(err)
	}
	f.Add(replyTo(query, func(m *dnsmessage.Message) { answerWith(m, "10.0.0.1", "10.0.0.2") }))
	f.Add(replyTo(query, func(m *dnsmessage.Message) { m.RCode = dnsmessage.RCodeNameError }))
	f.Add(replyTo(query, func(m *dnsmessage.Message) { m.Truncated = true }))
	f.Add(replyTo(query, func(m *dnsmessage.Message) { m.Questions = nil }))
	f.Add(q.message(id))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &attempt{stream: &stream{Stream: s, inquiry: q, ctx: t.Context()}}
		a.answered(id, data)
		var m dnsmessage.Message
		switch {
		case a.Outcome == "" || a.End == 0 && a.Outcome == timeline.OK:
			t.Errorf("%x: %+v", data, a.Sample)
		case a.Outcome == timeline.OK:
			if err := m.Unpack(data); err != nil || m.ID != id || !m.Response || m.Truncated || len(m.Questions) != 1 {
				t.Errorf("%x passed: %+v, %v", data, m, err)
			}
			for _, x := range a.Answers {
				if ip := net.ParseIP(x); ip.To4() == nil {
					t.Errorf("%x: address %q of an A record", data, x)
				}
			}
		case a.Err == "":
			t.Errorf("%x: no reason: %+v", data, a.Sample)
		}
	})
}
