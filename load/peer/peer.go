// SPDX-License-Identifier: Apache-2.0

// Package peer is an HBONE server of the suite's own, before an app of its pod, that misbehaves as it
// is asked to: what a data path makes of a peer's faults is judged by it. It writes down what it does
// and sees, which nobody could capture: it is inside of TLS. It shares no code with the reference's
// own tunnels (fixtures/hbone), which are what is judged.
package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// The budgets of what a peer does with the other side.
const (
	handshakeFor = 10 * time.Second
	dialFor      = 3 * time.Second
	writeFor     = 10 * time.Second
	// lastWords is how long the other side may take to end a connection that was ended here.
	lastWords = 2 * time.Second
)

// Config is a peer's.
type Config struct {
	// Path says what is wrong with it: one of those to peers of the suite's own.
	Path flow.Path
	// TLS has its certificate, and by whom the other side's is to be signed.
	TLS *tls.Config
	// Emit takes what it does and sees, in the order of each tunnel, from several goroutines.
	Emit func(timeline.Event)
}

// Server is one peer. It begins as a good one.
type Server struct {
	cfg    Config
	manner manner
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	begun   bool
	turns   string // how it turns tunnels away now; "": it takes them
	limit   uint32 // of streams in a tunnel
	dialled int
	streams int // that were cut
	tunnels map[*tunnel]bool
}

// New makes one.
func New(cfg Config) (*Server, error) {
	m, known := manners[cfg.Path]
	if !known {
		return nil, fmt.Errorf("there is no peer of the suite's own for %q", cfg.Path)
	}
	cfg.TLS = cfg.TLS.Clone()
	cfg.TLS.NextProtos = []string{"h2"}
	s := &Server{cfg: cfg, manner: m, limit: generous, tunnels: map[*tunnel]bool{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Serve takes tunnels until the listener is closed.
func (s *Server) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("taking tunnels: %w", err)
		}
		s.work.Go(func() { s.take(c.(*net.TCPConn)) })
	}
}

// Close cuts what there is, and waits for its end. Nothing is to be accepted any more.
func (s *Server) Close() {
	s.stop()
	s.mu.Lock()
	for t := range s.tunnels {
		_ = t.tcp.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// Begin has it misbehave from now on. A second call does nothing.
func (s *Server) Begin() {
	s.mu.Lock()
	first := !s.begun
	s.begun = true
	s.mu.Unlock()
	if !first {
		return
	}
	s.say(timeline.PeerBegan, nil)
	if s.manner.begin != nil {
		s.work.Go(func() { s.manner.begin(s) })
	}
}

// Handler is where it is asked whether it serves, and told to begin.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ReadyPath, func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST "+BeginPath, func(http.ResponseWriter, *http.Request) { s.Begin() })
	return mux
}

// The paths of Handler.
const (
	ReadyPath = "/readyz"
	BeginPath = "/begin"
)

// misbehaves says whether it has begun to.
func (s *Server) misbehaves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// all are the tunnels that stand.
func (s *Server) all() []*tunnel {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*tunnel, 0, len(s.tunnels))
	for t := range s.tunnels {
		out = append(out, t)
	}
	return out
}

// pause waits; false: the peer is being closed.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// say tells of what it did or saw.
func (s *Server) say(what string, attrs map[string]string) {
	all := map[string]string{"what": what}
	for k, v := range attrs {
		all[k] = v
	}
	s.cfg.Emit(timeline.Event{
		At: timeline.Monotonic(), Source: "peer", Kind: timeline.PeerSaw, Subject: string(s.cfg.Path), Name: string(s.cfg.Path), Attrs: all,
	})
}

// take is one connection from its begin to its end.
func (s *Server) take(c *net.TCPConn) {
	defer c.Close()
	s.mu.Lock()
	s.dialled++
	t := newTunnel(s, c, s.dialled)
	turns := s.turns
	s.mu.Unlock()
	t.say(timeline.PeerDialled, "from", c.RemoteAddr().String())
	if turns == resets {
		t.say(timeline.PeerCut, "by", timeline.PeerByRST)
		_ = c.SetLinger(0)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, handshakeFor)
	err := t.tls.HandshakeContext(ctx)
	cancel()
	if err != nil {
		t.ended(err)
		return
	}
	s.mu.Lock()
	s.tunnels[t] = true
	s.mu.Unlock()
	t.run(turns == goesAway)
	s.mu.Lock()
	delete(s.tunnels, t)
	s.mu.Unlock()
}

func decimal[N int | uint32](n N) string { return strconv.FormatUint(uint64(n), 10) }
