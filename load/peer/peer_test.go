// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/hbone"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/peer"
)

// patience bounds what is waited for.
const patience = time.Minute

// bench is a peer before an app that echoes what it is told, and a pool of the mesh's own before it.
type bench struct {
	*peer.Server
	pool    *hbone.Pool[string]
	to, app string

	mu  sync.Mutex
	saw []timeline.Event
	new chan struct{} // closed, and made anew, with each event
}

func started(t *testing.T, path flow.Path, set hbone.PoolSettings) *bench {
	t.Helper()
	ca, err := pki.New("mesh")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse("spiffe://cluster.local/ns/n/sa/a")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Workload(u, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	b := &bench{app: echoing(t), new: make(chan struct{})}
	b.Server, err = peer.New(peer.Config{
		Path: path, TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots},
		Emit: b.note,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve(l) }()
	b.pool = hbone.NewPool(func(ctx context.Context, to string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		return conn, conn.HandshakeContext(ctx)
	}, set)
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.pool.Shutdown(gone)
		_ = l.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		b.Close()
	})
	b.to = l.Addr().String()
	return b
}

// echoing is an app that gives back what it is told, and ends with its client.
func echoing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

func (b *bench) note(e timeline.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saw = append(b.saw, e)
	close(b.new)
	b.new = make(chan struct{})
}

// count is how often the peer did or saw something; by is how, "" for any way.
func (b *bench) count(what, by string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held(what, by)
}

func (b *bench) held(what, by string) int {
	n := 0
	for _, e := range b.saw {
		if e.Attrs["what"] == what && (by == "" || e.Attrs["by"] == by) {
			n++
		}
	}
	return n
}

// await waits until it did or saw something so often.
func (b *bench) await(t *testing.T, what, by string, times int) {
	t.Helper()
	late := time.After(patience)
	for {
		b.mu.Lock()
		n, next := b.held(what, by), b.new
		b.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-next:
		case <-late:
			t.Fatalf("%s %s: %d times, want %d", what, by, n, times)
		}
	}
}

// talk opens a stream, has a word echoed in it, and leaves it open.
func (b *bench) talk(t *testing.T) *hbone.Stream {
	t.Helper()
	s, err := b.open(t)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bench) open(t *testing.T) (*hbone.Stream, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := b.pool.Connect(ctx, b.to, b.app, http.Header{})
	if err != nil {
		return nil, err
	}
	word := make([]byte, 5)
	if _, err := s.Write([]byte("hello")); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(s, word); err != nil {
		return nil, err
	}
	return s, nil
}

// end ends a stream in good order, on both sides.
func end(t *testing.T, s *hbone.Stream) {
	t.Helper()
	_ = s.CloseWrite()
	if rest, err := io.ReadAll(s); err != nil || len(rest) > 0 {
		t.Errorf("behind the end: %q, %v", rest, err)
	}
}

// A peer is a good one before it is told to be another, whatever its path.
func TestGood(t *testing.T) {
	for _, path := range []flow.Path{flow.PeerRefuses, flow.PeerLimits, flow.PeerTurnsAway, flow.PeerSilent, flow.PeerCuts, flow.PeerMoves, flow.PeerNotifies, flow.PeerHears} {
		t.Run(string(path), func(t *testing.T) {
			t.Parallel()
			b := started(t, path, hbone.PoolSettings{})
			for range 20 {
				end(t, b.talk(t))
			}
			b.await(t, timeline.PeerDone, "", 20)
			if n := b.count(timeline.PeerDialled, ""); n != 1 {
				t.Errorf("%d tunnels", n)
			}
			if n := b.count(timeline.PeerEndStream, ""); n != 20 {
				t.Errorf("%d of 20 ended", n)
			}
			s := b.talk(t)
			s.Reset(8)
			b.await(t, timeline.PeerReset, "", 1)
		})
	}
	if _, err := peer.New(peer.Config{Path: flow.Direct, TLS: &tls.Config{MinVersion: tls.VersionTLS13}}); err == nil {
		t.Error("a path to nobody of ours has a peer")
	}
}

// Big transfers take all windows more than once.
func TestWindows(t *testing.T) {
	b := started(t, flow.PeerHears, hbone.PoolSettings{})
	s := b.talk(t)
	const n = 3 << 20
	go func() {
		_, _ = s.Write([]byte(strings.Repeat("x", n)))
		_ = s.CloseWrite()
	}()
	if got, err := io.ReadAll(s); err != nil || len(got) != n {
		t.Errorf("%d of %d came back: %v", len(got), n, err)
	}
}

func TestRefuses(t *testing.T) {
	b := started(t, flow.PeerRefuses, hbone.PoolSettings{})
	b.Begin()
	for range 30 {
		end(t, b.talk(t))
	}
	for _, by := range []string{timeline.PeerByReset, timeline.PeerByGoAway} {
		if n := b.count(timeline.PeerRefused, by); n < 3 {
			t.Errorf("%d were refused by %s", n, by)
		}
	}
	b = started(t, flow.PeerRefuses, hbone.PoolSettings{Retries: -1})
	b.Begin()
	var refused int
	for range 10 {
		if s, err := b.open(t); errors.Is(err, hbone.ErrUnprocessed) {
			refused++
		} else if err == nil {
			end(t, s)
		}
	}
	if refused == 0 {
		t.Error("who opens none again hears of none")
	}
}

func TestLimits(t *testing.T) {
	b := started(t, flow.PeerLimits, hbone.PoolSettings{})
	end(t, b.talk(t))
	b.Begin()
	b.await(t, timeline.PeerSettings, "", 2)
	var all []*hbone.Stream
	for range 3 * peer.Few {
		all = append(all, b.talk(t))
	}
	if n := b.count(timeline.PeerDialled, ""); n < 3 {
		t.Errorf("%d tunnels for %d streams", n, len(all))
	}
	for _, s := range all {
		end(t, s)
	}
}

// A peer that is silent answers nothing, and sees when it is given up.
func TestSilent(t *testing.T) {
	b := started(t, flow.PeerSilent, hbone.PoolSettings{Tunnel: hbone.Settings{PingEvery: 50 * time.Millisecond, PingFor: 100 * time.Millisecond}})
	s := b.talk(t)
	b.Begin()
	b.await(t, timeline.PeerSilent, "", 1)
	if _, err := io.ReadAll(s); err == nil {
		t.Error("the stream ended in good order")
	}
	b.await(t, timeline.PeerEnded, "", 1)
	b.mu.Lock()
	for _, e := range b.saw {
		if e.Attrs["what"] == timeline.PeerEnded && e.Attrs["open"] != "1" {
			t.Errorf("%v: a stream was open", e.Attrs)
		}
	}
	b.mu.Unlock()
	end(t, b.talk(t)) // in a new one
}

func TestCuts(t *testing.T) {
	b := started(t, flow.PeerCuts, hbone.PoolSettings{})
	b.Begin()
	var all []*hbone.Stream
	for range 12 {
		all = append(all, b.talk(t))
	}
	for n, s := range all {
		if _, err := io.ReadAll(s); err == nil {
			t.Errorf("stream %d ended in good order", n)
		}
	}
	b.await(t, timeline.PeerCut, timeline.PeerByReset, 1)
	b.await(t, timeline.PeerCut, timeline.PeerByRST, 1)
}

func TestMoves(t *testing.T) {
	b := started(t, flow.PeerMoves, hbone.PoolSettings{})
	s := b.talk(t)
	b.Begin()
	b.await(t, timeline.PeerGoAway, "", 2) // the first, and behind the PING the last
	if _, err := s.Write([]byte("still")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(s, got); err != nil || string(got) != "still" {
		t.Errorf("%q, %v", got, err)
	}
	end(t, b.talk(t))
	if n := b.count(timeline.PeerDialled, ""); n != 2 {
		t.Errorf("%d tunnels", n)
	}
	end(t, s)
	b.await(t, timeline.PeerEnded, timeline.PeerItself, 1)
}

// Who opens a stream in a tunnel whose end was said in TLS hears nothing of it, and another one is opened elsewhere.
func TestNotifies(t *testing.T) {
	b := started(t, flow.PeerNotifies, hbone.PoolSettings{})
	end(t, b.talk(t))
	b.await(t, timeline.PeerDone, "", 1)
	b.Begin()
	b.await(t, timeline.PeerNotified, "", 1)
	b.await(t, timeline.PeerEnded, "", 1)
	end(t, b.talk(t))
	if n := b.count(timeline.PeerDialled, ""); n != 2 {
		t.Errorf("%d tunnels", n)
	}
	if n := b.count(timeline.PeerGoAway, ""); n != 0 {
		t.Errorf("%d GOAWAYs", n)
	}
}

func TestTurnsAway(t *testing.T) {
	b := started(t, flow.PeerTurnsAway, hbone.PoolSettings{Hold: -1})
	end(t, b.talk(t))
	b.Begin()
	b.await(t, timeline.PeerPhase, "", 1)
	b.await(t, timeline.PeerEnded, "", 1)
	var reset bool
	for range 50 {
		_, err := b.open(t)
		if err == nil {
			t.Fatal("it was served")
		}
		reset = reset || errors.Is(err, syscall.ECONNRESET)
	}
	if !reset {
		t.Error("nobody was reset")
	}
	if n := b.count(timeline.PeerDialled, ""); n > 10 {
		t.Errorf("%d dials", n)
	}
}

// It is asked, and told, over HTTP.
func TestHandler(t *testing.T) {
	b := started(t, flow.PeerHears, hbone.PoolSettings{})
	h := httptest.NewServer(b.Handler())
	defer h.Close()
	for _, one := range []struct {
		method, path string
		status       int
	}{{http.MethodGet, peer.ReadyPath, 200}, {http.MethodGet, peer.BeginPath, 405}, {http.MethodPost, peer.BeginPath, 200}, {http.MethodPost, peer.BeginPath, 200}} {
		req, err := http.NewRequestWithContext(t.Context(), one.method, h.URL+one.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := h.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != one.status {
			t.Errorf("%s %s: %s", one.method, one.path, resp.Status)
		}
	}
	if n := b.count(timeline.PeerBegan, ""); n != 1 {
		t.Errorf("it began %d times", n)
	}
	if !slices.ContainsFunc(b.saw, func(e timeline.Event) bool { return e.Subject == string(flow.PeerHears) }) {
		t.Error("it doesn't say who it is")
	}
}
