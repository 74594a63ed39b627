// SPDX-License-Identifier: Apache-2.0

// Package control is the channel between the runner and its agents: HTTPS in
// which both sides prove that the run's own authority signed them, straight to
// the agent, so that it lives through an API server's restart.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Hello is who an agent is, and its clock.
type Hello struct {
	BootID string `json:"bootID"`
	// Monotonic is the agent's CLOCK_MONOTONIC at the answer.
	Monotonic time.Duration `json:"monotonicNs"`
	Role      string        `json:"role"`
	Node      string        `json:"node"`
	Pod       string        `json:"pod"`
	Version   string        `json:"version"`
	// Spool names the history; another name is another history, because the
	// agent was restarted.
	Spool string `json:"spool"`
	// Spooled is how many bytes the history has.
	Spooled int64 `json:"spooled"`
}

// Status is how a stream stands.
type Status struct {
	Name string `json:"name"`
	// Pacing: it goes on sending. Not pacing and not done: something is
	// still in flight.
	Pacing bool `json:"pacing"`
	Done   bool `json:"done"`
	// Samples is how many attempts have ended.
	Samples uint64 `json:"samples"`
}

// Pressure asks for closed-loop load like that of `hey -c Conns -q QPS/Conns`, until
// it is stopped.
type Pressure struct {
	Name string `json:"name"`
	// Addr is host:port.
	Addr  string `json:"addr"`
	Conns int    `json:"conns"`
	// QPS is requests per second of all connections together.
	QPS float64 `json:"qps"`
	// Seconds bounds it, where nobody stops it.
	Seconds float64 `json:"atMostSeconds"`
}

// Signal asks a witness to signal the first process of a pod's containers.
type Signal struct {
	// Pod is the pod's UID.
	Pod string `json:"pod"`
	// Container is its name; empty: all containers but the pause container.
	Container string `json:"container"`
	// Signal is one of Signals.
	Signal string `json:"signal"`
}

// Signals are those that a witness sends: to end a process, and (USR1, USR2) to have an app
// begin, and end, what it sends out itself.
func Signals() []string { return []string{"TERM", "KILL", "STOP", "CONT", "USR1", "USR2"} }

// Signaller sends signals to pods. An error that is fs.ErrNotExist says that
// there is no such process.
type Signaller interface {
	Signal(ctx context.Context, s Signal) (pids []int, err error)
}

// Census asks a witness which sockets are in a pod's network, to some peers.
type Census struct {
	// Pod is the pod's UID.
	Pod string `json:"pod"`
	// Peers are host:port each. None: all that are held, listeners and what is dialled too, whose peer may be unspecified (0.0.0.0:0, [::]:0).
	Peers []string `json:"peers,omitempty"`
	// Others: but for those that the pod's own processes hold.
	Others bool `json:"others,omitempty"`
}

// Counted is a Census's answer.
type Counted struct {
	// At is when it was looked, in the witness's clock.
	At time.Duration `json:"at"`
	// Sockets has an entry for each of the peers, or for each that somebody has a socket to.
	Sockets map[string][]timeline.Socket `json:"sockets"`
}

// Counter counts the sockets of pods. An error that is fs.ErrNotExist says that the pod has no
// process here.
type Counter interface {
	Count(ctx context.Context, c Census) (Counted, error)
}

// Knock asks an agent whether something accepts a TCP connection at an address.
type Knock struct {
	// Addr is host:port, an IP.
	Addr string `json:"addr"`
}

// Question asks an agent whether anybody answers.
type Question struct {
	// Stream says where, and by which protocol.
	Stream load.Stream `json:"stream"`
	Path   string      `json:"path"`
}

// Asker asks for a path once; a Generator may be one. The error says why nobody answered.
type Asker interface {
	Ask(ctx context.Context, s load.Stream, path string) error
}

// dialled is what came of it: no Error, where it was accepted, or answered.
type dialled struct {
	Error string `json:"error,omitempty"`
}

// dialBudget bounds a dial: one in a cluster is answered or refused at once.
const dialBudget = 2 * time.Second

// Presser makes pressure until it is over or ctx ends, and sums it up.
type Presser interface {
	Press(ctx context.Context, p Pressure) (timeline.Event, error)
}

// Server is an agent's side. The zero value of each optional field means that
// this agent can't do it.
type Server struct {
	Role, Node, Pod, Version string
	// Spool takes everything that the agent records.
	Spool *Spool
	// Generator runs streams (optional).
	Generator load.Generator
	// Presser makes pressure (optional).
	Presser Presser
	// Signaller signals pods (optional).
	Signaller Signaller
	// Counter counts the sockets of pods (optional).
	Counter Counter
	// Log takes what goes wrong.
	Log *log.Logger

	mu       sync.Mutex
	ctx      context.Context
	streams  map[flow.Stream]*running
	loaded   bool // streams were started since the CPU was told
	pressing sync.WaitGroup
	pressure []*pressing // what was begun and has no summary yet
}

// pressing is pressure that was begun.
type pressing struct {
	stop context.CancelCauseFunc
	done chan struct{} // closed when its summary is recorded
}

type running struct {
	handle  load.Handle
	stopped atomic.Bool
	samples atomic.Uint64
}

// maxBody bounds a request's body.
const maxBody = 8 << 20

// lastWords bounds how long a server that ends waits for those who follow it.
const lastWords = 5 * time.Second

// Serve listens for clients of the same authority until ctx ends. Then it
// stops pacing, lets what is in flight end for drain at most, hands the rest
// of the history to those who follow it, and returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener, c Credentials, drain time.Duration) error {
	config, err := c.ServerTLS()
	if err != nil {
		return err
	}
	if s.Log == nil {
		s.Log = log.New(io.Discard, "", 0)
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	s.mu.Lock()
	s.ctx, s.streams = life, map[flow.Stream]*running{}
	s.mu.Unlock()
	h := &http.Server{
		Handler:           s.handler(),
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
		// Handshakes that fail are the business of who tried them.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- h.ServeTLS(l, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("the control channel: %w", err)
	case <-ctx.Done():
	}
	s.stop(nil)
	bounded, cancel := context.WithTimeout(life, drain)
	defer cancel()
	s.waitIdle(bounded)
	kill()
	s.waitIdle(context.Background()) // what was killed is recorded as cancelled
	s.pressing.Wait()
	s.Spool.End()
	last, cancelLast := context.WithTimeout(context.Background(), lastWords)
	defer cancelLast()
	if err := h.Shutdown(last); err != nil {
		_ = h.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the control channel: %w", err)
	}
	return nil
}

func (s *Server) waitIdle(ctx context.Context) {
	s.mu.Lock()
	all := make([]*running, 0, len(s.streams))
	for _, r := range s.streams {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		select {
		case <-r.handle.Done():
		case <-ctx.Done():
			return
		}
	}
}

// Emit adds an agent's own record to the history.
func (s *Server) Emit(r timeline.Record) {
	if err := s.Spool.Append(r); err != nil {
		s.Log.Printf("a record is lost: %v", err)
	}
}

// apiError is an error with its HTTP status.
type apiError struct {
	code int
	err  error
}

func (e *apiError) Error() string { return e.err.Error() }

func failed(code int, format string, args ...any) error {
	return &apiError{code, fmt.Errorf(format, args...)}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			v, err := f(r)
			if err != nil {
				code := http.StatusInternalServerError
				var api *apiError
				if errors.As(err, &api) {
					code = api.code
				}
				http.Error(w, err.Error(), code)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			// An error here is the client's connection: it knows.
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	mux.HandleFunc("GET /v1/records", s.records)
	handle("GET /v1/hello", func(*http.Request) (any, error) { return s.hello() })
	handle("GET /v1/streams", func(*http.Request) (any, error) { return s.status(), nil })
	handle("POST /v1/streams", s.startStreams)
	handle("POST /v1/streams/stop", s.stopStreams)
	handle("POST /v1/pressure", s.press)
	handle("POST /v1/pressure/stop", s.stopPress)
	handle("POST /v1/signal", s.signal)
	handle("POST /v1/census", s.census)
	handle("POST /v1/dial", dial)
	handle("POST /v1/ask", s.ask)
	return mux
}

func (s *Server) hello() (Hello, error) {
	boot, err := timeline.BootID()
	if err != nil {
		return Hello{}, err
	}
	return Hello{
		BootID: boot, Role: s.Role, Node: s.Node, Pod: s.Pod, Version: s.Version,
		Spool: s.Spool.id, Spooled: s.Spool.Size(), Monotonic: timeline.Monotonic(),
	}, nil
}

// endTrailer says how a history ended: "complete", or what went wrong. When it
// is missing, only the connection did.
const endTrailer = "X-Lastcall-End"

const endComplete = "complete"

func (s *Server) records(w http.ResponseWriter, r *http.Request) {
	offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
	if err != nil || offset < 0 || offset > s.Spool.Size() {
		http.Error(w, fmt.Sprintf("offset=%q: want a number of bytes from 0 to %d", r.URL.Query().Get("offset"), s.Spool.Size()), http.StatusBadRequest)
		return
	}
	if id := r.URL.Query().Get("spool"); id != "" && id != s.Spool.id {
		http.Error(w, fmt.Sprintf("the history %s is gone: this agent was restarted and began %s", id, s.Spool.id), http.StatusGone)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Trailer", endTrailer)
	c := http.NewResponseController(w)
	if err := c.Flush(); err != nil {
		return
	}
	err = s.Spool.follow(w, c.Flush, offset, r.Context().Done())
	switch {
	case r.Context().Err() != nil:
	case err != nil:
		w.Header().Set(endTrailer, strings.ReplaceAll(err.Error(), "\n", " "))
	default:
		w.Header().Set(endTrailer, endComplete)
	}
}

// status says how all streams stand. When it says so for the first time that
// all of a load are done, the history has what CPU it cost.
func (s *Server) status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, 0, len(s.streams))
	idle := true
	for name, r := range s.streams {
		st := Status{Name: name.String(), Samples: r.samples.Load()}
		select {
		case <-r.handle.Done():
			st.Done = true
		default:
			st.Pacing = !r.stopped.Load()
			idle = false
		}
		out = append(out, st)
	}
	if idle && s.loaded {
		// Before the answer: whoever waits for idle streams and then catches
		// up has it.
		s.tellCPU()
		s.loaded = false
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// startStreams starts all or none: before the first one it looks whether a
// name runs already. A stream that is done gives its name free.
func (s *Server) startStreams(r *http.Request) (any, error) {
	if s.Generator == nil {
		return nil, failed(http.StatusNotImplemented, "a %s runs no streams", s.Role)
	}
	var streams []load.Stream
	if err := decode(r, &streams); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := map[flow.Stream]bool{}
	for _, st := range streams {
		if st.Name == (flow.Stream{}) || names[st.Name] {
			return nil, failed(http.StatusBadRequest, "stream %q: each needs a name of its own", st.Name)
		}
		names[st.Name] = true
		if old := s.streams[st.Name]; old != nil {
			select {
			case <-old.handle.Done():
			default:
				return nil, failed(http.StatusConflict, "stream %q runs already", st.Name)
			}
		}
	}
	var started []*running
	for _, st := range streams {
		run := &running{}
		var err error
		run.handle, err = s.Generator.Start(s.ctx, st, func(r timeline.Record) {
			s.Emit(r)
			if r.Sample != nil {
				run.samples.Add(1)
			}
		})
		if err != nil {
			for _, other := range started {
				other.stopped.Store(true)
				other.handle.Stop()
			}
			return nil, failed(http.StatusBadRequest, "none started: %w", err)
		}
		started = append(started, run)
		s.streams[st.Name] = run
		s.loaded = true
	}
	return map[string]int{"started": len(started)}, nil
}

type stopRequest struct {
	Names []flow.Stream `json:"names"`
}

func (s *Server) stopStreams(r *http.Request) (any, error) {
	var q stopRequest
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if unknown := s.stop(q.Names); len(unknown) > 0 {
		return nil, failed(http.StatusNotFound, "no stream is called %q", unknown)
	}
	return map[string]int{"stopped": len(q.Names)}, nil
}

// stop ends the pacing of the named streams, of all when there are no names.
func (s *Server) stop(names []flow.Stream) (unknown []flow.Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) == 0 {
		for name := range s.streams {
			names = append(names, name)
		}
	}
	for _, name := range names {
		r := s.streams[name]
		if r == nil {
			unknown = append(unknown, name)
			continue
		}
		r.stopped.Store(true)
		r.handle.Stop()
	}
	return unknown
}

func (s *Server) press(r *http.Request) (any, error) {
	if s.Presser == nil {
		return nil, failed(http.StatusNotImplemented, "a %s makes no pressure", s.Role)
	}
	var p Pressure
	if err := decode(r, &p); err != nil {
		return nil, err
	}
	if p.Name == "" || p.Conns <= 0 || p.QPS <= 0 || p.Seconds <= 0 {
		return nil, failed(http.StatusBadRequest, "pressure needs a name, and conns, qps and atMostSeconds above 0: %+v", p)
	}
	if _, _, err := net.SplitHostPort(p.Addr); err != nil {
		return nil, failed(http.StatusBadRequest, "pressure's addr: %w", err)
	}
	s.mu.Lock()
	ctx, stop := context.WithCancelCause(s.ctx)
	x := &pressing{stop, make(chan struct{})}
	s.pressure = append(s.pressure, x)
	s.mu.Unlock()
	s.pressing.Go(func() {
		defer s.pressed(x)
		e, err := s.Presser.Press(ctx, p)
		if err != nil {
			s.Log.Printf("pressure %s: %v", p.Name, err)
			e = timeline.Event{At: timeline.Monotonic(), Kind: timeline.Pressure, Name: p.Name, Attrs: map[string]string{"error": err.Error()}}
		}
		e.Source, e.Subject, e.Node = "agent", p.Name, s.Node
		s.Emit(timeline.Record{Event: &e})
	})
	return map[string]string{"started": p.Name}, nil
}

// pressed takes pressure off whose summary is recorded.
func (s *Server) pressed(x *pressing) {
	x.stop(nil)
	s.mu.Lock()
	s.pressure = slices.DeleteFunc(s.pressure, func(y *pressing) bool { return x == y })
	s.mu.Unlock()
	close(x.done)
}

type stopPressure struct {
	Why string `json:"why,omitempty"`
}

// stopPress ends all pressure, and answers when each of its summaries is recorded, also
// where another call has ended it.
func (s *Server) stopPress(r *http.Request) (any, error) {
	var q stopPressure
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	var why error
	if q.Why != "" {
		why = errors.New(q.Why)
	}
	s.mu.Lock()
	all := slices.Clone(s.pressure)
	s.mu.Unlock()
	for _, p := range all {
		p.stop(why)
	}
	for _, p := range all {
		<-p.done
	}
	return map[string]int{"stopped": len(all)}, nil
}

func (s *Server) signal(r *http.Request) (any, error) {
	if s.Signaller == nil {
		return nil, failed(http.StatusNotImplemented, "a %s sends no signals", s.Role)
	}
	var q Signal
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if all := Signals(); q.Pod == "" || !slices.Contains(all, q.Signal) {
		return nil, failed(http.StatusBadRequest, "a signal needs a pod's UID and one of %q: %+v", all, q)
	}
	pids, err := s.Signaller.Signal(r.Context(), q)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failed(http.StatusNotFound, "%w", err)
	}
	return signalled{PIDs: pids}, err
}

func dial(r *http.Request) (any, error) {
	var q Knock
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddrPort(q.Addr); err != nil {
		return nil, failed(http.StatusBadRequest, "a dial needs an IP and a port: %w", err)
	}
	d := net.Dialer{Timeout: dialBudget}
	c, err := d.DialContext(r.Context(), "tcp", q.Addr)
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		return dialled{err.Error()}, nil //nolint:nilerr // what the dial met is the answer
	}
	return dialled{}, nil
}

func (s *Server) ask(r *http.Request) (any, error) {
	asker, ok := s.Generator.(Asker)
	if !ok {
		return nil, failed(http.StatusNotImplemented, "a %s asks nobody", s.Role)
	}
	var q Question
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddrPort(q.Stream.Addr); err != nil || !strings.HasPrefix(q.Path, "/") {
		return nil, failed(http.StatusBadRequest, "a question needs an IP and a port, and a path: %q, %q", q.Stream.Addr, q.Path)
	}
	if err := asker.Ask(r.Context(), q.Stream, q.Path); err != nil {
		return dialled{err.Error()}, nil //nolint:nilerr // what the question met is the answer
	}
	return dialled{}, nil
}

func (s *Server) census(r *http.Request) (any, error) {
	if s.Counter == nil {
		return nil, failed(http.StatusNotImplemented, "a %s counts no sockets", s.Role)
	}
	var q Census
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	if q.Pod == "" {
		return nil, failed(http.StatusBadRequest, "a census needs a pod's UID: %+v", q)
	}
	counted, err := s.Counter.Count(r.Context(), q)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failed(http.StatusNotFound, "%w", err)
	}
	return counted, err
}

type signalled struct {
	PIDs []int `json:"pids"`
}

func decode(r *http.Request, to any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return failed(http.StatusBadRequest, "reading the request: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return failed(http.StatusBadRequest, "reading the request: more than one value in it")
	}
	return nil
}
