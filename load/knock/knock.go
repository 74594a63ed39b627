// SPDX-License-Identifier: Apache-2.0

// Package knock connects to ports again and again, more often than any client does, and has each connection
// answered: so it is seen whether there was an instant at which nobody was there. It costs little: the
// machine has to carry what it looks at, too.
package knock

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Port is one that is knocked at.
type Port struct {
	// At is where it is, and Within calls what connects to it in the network that this is done from, on a
	// thread that it has for itself.
	At     netip.AddrPort
	Within func(func() error) error
	// Says is what is said to who is there, so that it answers by at least a byte.
	Says []byte
	// Number is the port that is told of, where what is dialled is redirected to it; 0: that of At.
	Number uint16
	// Every is how often it is knocked at, where that is not as often as at the others.
	Every time.Duration
}

// every is how often it is knocked at.
func (c Config) every(p Port) time.Duration { return cmp.Or(p.Every, c.Every) }

// Config says where and how often.
type Config struct {
	Ports []Port
	// Every is how often each port is knocked at, and Patience how long a knock may take to be answered.
	Every, Patience time.Duration
	// Emit is told of what came of it (timeline.Knocks and timeline.KnockFailed), with what Event has.
	Emit  func(timeline.Event)
	Event timeline.Event
}

const (
	// tellEvery is how often answers are told of.
	tellEvery = 100 * time.Millisecond
	// hands knock at a port, in turn: while one waits for its answer the next one knocks.
	hands = 4
)

// Knocks are under way.
type Knocks struct {
	stop context.CancelFunc
	over sync.WaitGroup

	mu     sync.Mutex
	failed error
}

// Begin knocks until Stop, or ctx's end.
func Begin(ctx context.Context, cfg Config) *Knocks {
	ctx, stop := context.WithCancel(ctx)
	k := &Knocks{stop: stop}
	for _, p := range cfg.Ports {
		k.over.Go(func() { (&lane{of: k, cfg: cfg, port: p}).run(ctx) })
	}
	return k
}

// Stop begins no more knocks, and returns when all are over and told: an error says that somebody could not
// knock at all.
func (k *Knocks) Stop() error {
	k.stop()
	k.over.Wait()
	return k.failed
}

// lane is one port.
type lane struct {
	of   *Knocks
	cfg  Config
	port Port

	mu      sync.Mutex
	n       int
	longest time.Duration
}

func (l *lane) run(ctx context.Context) {
	var all sync.WaitGroup
	begun := time.Now()
	for n := range hands {
		all.Go(func() {
			runtime.LockOSThread() // which ends with this goroutine, whatever network it is in
			err := l.port.Within(func() error {
				l.knocks(ctx, begun.Add(time.Duration(n)*l.cfg.every(l.port)))
				return nil
			})
			if err != nil {
				l.of.mu.Lock()
				defer l.of.mu.Unlock()
				l.of.failed = err
			}
		})
	}
	tell := time.NewTicker(tellEvery)
	defer tell.Stop()
	for ctx.Err() == nil {
		select {
		case <-tell.C:
			l.tell()
		case <-ctx.Done():
		}
	}
	all.Wait()
	l.tell()
}

// knocks are those of one hand. One that was late makes up for it.
func (l *lane) knocks(ctx context.Context, due time.Time) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		wait.Reset(time.Until(due))
		select {
		case <-wait.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		l.knock()
		due = due.Add(hands * l.cfg.every(l.port))
	}
}

// knock is one.
func (l *lane) knock() {
	begun := time.Now()
	err := answered(l.port, begun.Add(l.cfg.Patience))
	took := time.Since(begun)
	if err != nil {
		l.emit(timeline.KnockFailed, map[string]string{"why": err.Error(), "took": took.String()})
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	l.longest = max(l.longest, took)
}

func (l *lane) tell() {
	l.mu.Lock()
	n, longest := l.n, l.longest
	l.n, l.longest = 0, 0
	l.mu.Unlock()
	if n > 0 {
		l.emit(timeline.Knocks, map[string]string{"n": strconv.Itoa(n), "longest": longest.String()})
	}
}

func (l *lane) emit(kind timeline.EventKind, attrs map[string]string) {
	e := l.cfg.Event
	attrs["port"] = strconv.Itoa(int(cmp.Or(l.port.Number, l.port.At.Port())))
	e.Kind, e.Attrs = kind, attrs
	l.cfg.Emit(e)
}

// Hello is the begin of a handshake in TLS that who speaks TLS 1.3 alone refuses, by an alert: an answer that costs
// neither side a signature.
func Hello() ([]byte, error) {
	near, far := net.Pipe()
	defer far.Close()
	go func() {
		defer near.Close()
		_ = tls.Client(near, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).HandshakeContext(context.Background()) // it is not answered
	}()
	b := make([]byte, 4<<10)
	n, err := far.Read(b)
	return b[:n], err
}
