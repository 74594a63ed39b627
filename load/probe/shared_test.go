// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

func sharing() load.Profile {
	return load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Get}}
}

// asked is a request that a peer has not answered yet.
type asked struct {
	conn   int
	p      *peer
	stream uint32
	id     string
}

// answer is the whole one.
func (a asked) answer() {
	a.p.header(a.stream, 200, 256, false)
	a.p.body(a.stream, a.id, 256, true)
}

// asking is a peer that only takes requests: the test answers.
func asking(t *testing.T) (addr string, requests <-chan asked) {
	t.Helper()
	out := make(chan asked, 100)
	return accept(t, func(n int, tcp *net.TCPConn) {
		p, err := newPeer(tcp)
		for err == nil {
			a := asked{conn: n, p: p}
			if a.stream, a.id, err = p.request(); err == nil {
				out <- a
			}
		}
	}), out
}

// next is the next request that the peer gets.
func next(t *testing.T, requests <-chan asked) asked {
	t.Helper()
	select {
	case a := <-requests:
		return a
	case <-time.After(patience):
		t.Fatal("no request")
		return asked{}
	}
}

// begin begins so many attempts more, each when the peer has the one before.
func begin(t *testing.T, st *stream, requests <-chan asked, from, n int) []asked {
	t.Helper()
	var out []asked
	for i := range n {
		st.attempts.Go(func() { st.attempt(timeline.Monotonic(), int64(from+i)) })
		out = append(out, next(t, requests))
	}
	return out
}

// Many requests at once go over two connections, in turn, and each sample knows its
// own stream.
func TestSharedCarriesMany(t *testing.T) {
	noLeaks(t)
	addr, requests := asking(t)
	st, r := idleStream(t, testStream(addr, sharing()), 0)
	open := begin(t, st, requests, 0, 10)
	slices.Reverse(open)
	for _, a := range open {
		a.answer()
	}
	st.attempts.Wait()
	streams := map[string]bool{}
	for _, s := range r.all() {
		if s.Outcome != timeline.OK || s.Conn < 1 || s.Conn > sharedConns || s.LastOnConn {
			t.Errorf("not ok, or on a connection too many: %s", text(s))
		}
		streams[fmt.Sprint(s.ID, " ", s.StreamID)] = true
	}
	for _, a := range open {
		if !streams[fmt.Sprint(a.id, " ", a.stream)] {
			t.Errorf("no sample says that %s was stream %d: %v", a.id, a.stream, streams)
		}
	}
}

// One flow carries long requests and short ones over the same connections at once, and each is a
// sample of its own.
func TestSharedCarriesLongAndShort(t *testing.T) {
	g := noLeaks(t)
	addr, requests := asking(t)
	p := sharing()
	p.Op, p.Takes = flow.Mixed, time.Second
	st, r := idleStream(t, testStream(addr, p), 0)
	open := begin(t, st, requests, 0, 2*flow.LongEvery)
	for seq, a := range open {
		if seq%flow.LongEvery != 0 {
			a.answer()
		}
	}
	const long = 2
	g.Eventually(func() int { return len(r.all()) }).WithTimeout(patience).Should(gomega.Equal(len(open) - long))
	for seq, a := range open {
		if seq%flow.LongEvery == 0 {
			a.p.header(a.stream, 200, work.SlowBytes, false)
			a.p.body(a.stream, a.id, work.SlowBytes, true)
		}
	}
	st.attempts.Wait()
	all := r.all()
	ids := map[string]bool{}
	for _, s := range all {
		want := map[bool]int64{true: work.SmallBytes, false: work.SlowBytes}[s.Brief]
		if s.Outcome != timeline.OK || s.Got != want || s.Stream != st.Name || ids[s.ID] {
			t.Errorf("wrong: %s", text(s))
		}
		ids[s.ID] = true
	}
	n := 0
	for _, l := range all {
		if l.Brief {
			continue
		}
		n++
		if !slices.ContainsFunc(all, func(s timeline.Sample) bool {
			return s.Brief && s.Conn == l.Conn && s.StreamID != l.StreamID && s.End < l.End
		}) {
			t.Errorf("no short request went over the connection of %s: %v", text(l), all)
		}
	}
	if n != long {
		t.Errorf("%d of %d were long, want %d", n, len(all), long)
	}
	brief := &attempt{stream: st, Sample: timeline.Sample{Brief: true}}
	if is, other := brief.budget(), (&attempt{stream: st}).budget(); is != st.Timeout || other != st.Timeout+p.Takes {
		t.Errorf("a short one may take %v, a long one %v", is, other)
	}
}

// Over HTTP/2 in TLS, and in the schedule's own time.
func TestMixedInTLS(t *testing.T) {
	noLeaks(t)
	addr, opened := serve(t, flow.H2, backend)
	p := load.Profile{Flow: flow.Flow{Protocol: flow.H2, Conns: flow.Shared, Op: flow.Mixed, Takes: 300 * time.Millisecond}}
	within := func(all []timeline.Sample) bool {
		conns := map[uint64]bool{}
		for _, l := range all {
			if !l.Brief && l.End-l.First >= p.Takes && slices.ContainsFunc(all, func(s timeline.Sample) bool {
				return s.Brief && s.Conn == l.Conn && l.Start < s.Start && s.End < l.End
			}) {
				conns[l.Conn] = true
			}
		}
		return len(conns) == sharedConns
	}
	for _, s := range recordUntil(t, testStream(addr, p), within) {
		if s.Outcome != timeline.OK {
			t.Errorf("not ok: %s", text(s))
		}
	}
	if n := opened.Load(); n < sharedConns {
		t.Errorf("%d connections, want %d or more", n, sharedConns)
	}
}

// A GOAWAY in the middle: what is at or under its last stream goes on, what is above
// is known to be unprocessed, and what comes next goes elsewhere. The connection is
// the peer's to close when the last of them is done.
func TestSharedGoAway(t *testing.T) {
	g := noLeaks(t)
	addr, requests := asking(t)
	st, r := idleStream(t, testStream(addr, sharing()), 0)
	var first []asked
	for _, a := range begin(t, st, requests, 0, 8) {
		if a.conn == 1 {
			first = append(first, a)
		} else {
			a.answer()
		}
	}
	last := first[1].stream
	_ = first[0].p.WriteGoAway(last, http2.ErrCodeNo, nil)
	unprocessed := func(s timeline.Sample) bool {
		return s.Outcome == timeline.GoAway && s.Conn == 1 && s.StreamID > last && s.LastOnConn
	}
	g.Eventually(func() int { return r.count(unprocessed) }).WithTimeout(patience).Should(gomega.Equal(len(first) - 2))
	for _, a := range begin(t, st, requests, 8, 6) {
		if a.conn == 1 {
			t.Errorf("stream %d was opened behind the GOAWAY", a.stream)
		}
		a.answer()
	}
	if told := r.told(1); !slices.Equal(told, []string{fmt.Sprint("goaway code=NO_ERROR last=", last)}) {
		t.Errorf("two streams are open, and the connection told %q", told)
	}
	for _, a := range first[:2] {
		a.answer()
	}
	st.attempts.Wait()
	if n := r.count(func(s timeline.Sample) bool { return s.Outcome == timeline.OK }); n != 14-(len(first)-2) {
		t.Errorf("%d were answered: %v", n, r.all())
	}
	_ = first[0].p.c.CloseWrite()
	g.Eventually(func() []string { return r.told(1) }).WithTimeout(patience).Should(gomega.Equal(
		[]string{fmt.Sprint("goaway code=NO_ERROR last=", last), "fin", "close why=goaway"}))
}

// A stream that is reset ends alone, and its connection goes on.
func TestSharedReset(t *testing.T) {
	g := noLeaks(t)
	addr, requests := asking(t)
	st, r := idleStream(t, testStream(addr, sharing()), 0)
	open := begin(t, st, requests, 0, 6)
	struck := open[2]
	_ = struck.p.WriteRSTStream(struck.stream, http2.ErrCodeInternal)
	g.Eventually(func() int { return len(r.all()) }).WithTimeout(patience).Should(gomega.Equal(1))
	if s := r.all()[0]; s.Outcome != timeline.StreamReset || s.StreamID != struck.stream || int(s.Conn) != struck.conn {
		t.Errorf("want stream %d of connection %d reset: %s", struck.stream, struck.conn, text(s))
	}
	again := 0
	for _, a := range begin(t, st, requests, 6, 4) {
		if a.conn == struck.conn {
			again++
		}
		a.answer()
	}
	if again == 0 {
		t.Error("no request went over the connection of a reset one")
	}
	for i, a := range open {
		if i != 2 {
			a.answer()
		}
	}
	st.attempts.Wait()
	if n := r.count(func(s timeline.Sample) bool { return s.Outcome == timeline.OK && s.Conn <= sharedConns }); n != 9 {
		t.Errorf("%d of the 9 others were answered: %v", n, r.all())
	}
}

// What one connection has no room for goes over another one, and no connection is given
// up for it.
func TestSharedKeepsToTheLimit(t *testing.T) {
	g := noLeaks(t)
	addr, requests := asking(t)
	st, r := idleStream(t, testStream(addr, sharing()), 0)
	kept := st.keeper.(*shared)
	// The second one goes over what the first one has opened.
	open := begin(t, st, requests, 0, 3)
	open[1].answer()
	g.Eventually(func() int { return len(r.all()) }).WithTimeout(patience).Should(gomega.Equal(1))
	open = slices.Delete(open, 1, 2)
	for _, a := range open {
		_ = a.p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	}
	g.Eventually(func() bool {
		kept.mu.Lock()
		defer kept.mu.Unlock()
		return !slices.ContainsFunc(kept.links, func(l *link) bool { return l.conn.(*h2).cc.State().MaxConcurrentStreams != 1 })
	}).WithTimeout(patience).Should(gomega.BeTrue())
	more := begin(t, st, requests, 3, 2)
	for i, a := range more {
		if a.conn != sharedConns+1 {
			t.Errorf("request %d went over connection %d, want a new one for all that have no room", i, a.conn)
		}
	}
	for _, a := range append(open, more...) {
		a.answer()
	}
	st.attempts.Wait()
	g.Expect(r.count(func(s timeline.Sample) bool { return s.Outcome == timeline.OK })).To(gomega.Equal(5))
	if n := len(kept.links); n != sharedConns+1 {
		t.Errorf("%d connections are left, want %d", n, sharedConns+1)
	}
}

// gone is a wire whose end has come.
type gone struct{ wire }

func (gone) peek() state { return stale }

// While what takes one connection's place goes at once, again and again, the other one
// is used all the same.
func TestSharedSurvivorIsUsed(t *testing.T) {
	p := &shared{stock: stock{leave: func(*link, fate) {}}}
	made := func(w wire) *link { return &link{ear: newEar(w, &teller{emit: func(timeline.Record) {}}), wire: w} }
	survivor := made(quiet{})
	if p.take() != nil {
		t.Fatal("a connection out of nothing")
	}
	p.add(survivor)
	p.put(survivor, keep)
	used := 0
	for range 20 {
		l := p.take()
		if l == nil {
			l = made(gone{})
			p.add(l)
		} else if used++; l != survivor {
			t.Fatal("took one that was over")
		}
		p.put(l, keep)
	}
	if used != 10 {
		t.Errorf("the one that was well was used %d times of 20, want every other time", used)
	}
}

// A connection that ends takes all that was on it along, and nothing else.
func TestSharedEnds(t *testing.T) {
	g := noLeaks(t)
	addr, requests := asking(t)
	st, r := idleStream(t, testStream(addr, sharing()), 0)
	var lost int
	open := begin(t, st, requests, 0, 8)
	for _, a := range open {
		if a.conn == 1 {
			lost++
		}
	}
	for _, a := range open {
		if a.conn == 1 {
			_ = a.p.c.CloseWrite()
			break
		}
	}
	closed := func(s timeline.Sample) bool { return s.Outcome == timeline.Closed && s.Conn == 1 }
	g.Eventually(func() int { return r.count(closed) }).WithTimeout(patience).Should(gomega.Equal(lost))
	for _, a := range open {
		if a.conn != 1 {
			a.answer()
		}
	}
	for _, a := range begin(t, st, requests, 8, 4) {
		a.answer()
	}
	st.attempts.Wait()
	if n := r.count(func(s timeline.Sample) bool { return s.Outcome == timeline.OK }); n != 12-lost {
		t.Errorf("%d were answered: %v", n, r.all())
	}
}

// What was opened while there was no connection yet, and is too many, is not used
// any more, and goes.
func TestSharedSurplusGoes(t *testing.T) {
	var gone []*link
	p := &shared{stock: stock{end: func(l *link, _ string) { gone = append(gone, l) }}}
	var links []*link
	for range 5 {
		if l := p.take(); l != nil {
			t.Fatalf("took %v of nothing", l)
		}
		e := newEar(quiet{}, &teller{emit: func(timeline.Record) {}})
		links = append(links, &link{ear: e, wire: e})
	}
	for _, l := range links {
		p.add(l)
	}
	for _, l := range links {
		p.put(l, keep)
	}
	for range 10 {
		l := p.take()
		if i := slices.Index(links, l); i < 0 || i >= sharedConns {
			t.Errorf("took connection %d", i)
		}
	}
	p.look(time.Now().Add(maxIdle + time.Second))
	if len(gone) != 3 || p.open != sharedConns {
		t.Errorf("%d went, %d are open; want 3, %d", len(gone), p.open, sharedConns)
	}
}

// At a server that takes its time, all that the schedule has is under way at once.
func TestSharedGrowsWithItsStreams(t *testing.T) {
	g := noLeaks(t)
	addr, requests := asking(t)
	s := testStream(addr, sharing())
	s.Profile.Rate = 200
	var r recording
	h, err := Generator{}.Start(t.Context(), s, r.emit)
	if err != nil {
		t.Fatal(err)
	}
	var open []asked
	conns := map[int]int{}
	for range 80 {
		a := next(t, requests)
		open = append(open, a)
		conns[a.conn]++
	}
	h.Stop()
	var answered atomic.Int64
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, a := range open {
			a.answer()
			answered.Add(1)
		}
		for {
			select {
			case a := <-requests:
				a.answer()
				answered.Add(1)
			case <-stop:
				return
			}
		}
	}()
	ended(t, h)
	close(stop)
	<-done
	g.Expect(r.all()).To(gomega.HaveLen(int(answered.Load())))
	for _, s := range r.all() {
		if s.Outcome != timeline.OK {
			t.Errorf("not ok: %s", text(s))
		}
	}
	if len(conns) > 20 {
		t.Errorf("80 requests at once over %d connections: %v", len(conns), conns)
	}
}
