// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/work"
)

// backend is the server that all clients are measured against: HTTP/1.1 by hand,
// since what it costs is taken from the same machine, and it has to look at
// sockets. It answers each request with the 256 bytes that belong to its ID.
type backend struct {
	mu     sync.Mutex
	open   map[net.Conn]bool
	count  count
	shut   bool // the gate: what comes now is reset
	hit    bool // the gate has met somebody
	held   chan struct{}
	holds  bool // answers wait for held
	ledger []time.Duration
}

// count is what a run of a client came to, as its server saw it.
type count struct {
	// Requests are those that were taken, at Arrivals if that was asked for.
	Requests int             `json:"requests"`
	Arrivals []time.Duration `json:"arrivals,omitempty"`
	// Opened are the connections, of which Open are left.
	Opened int `json:"opened"`
	Open   int `json:"open"`
	// Refused is how many connections or requests the gate has reset.
	Refused int `json:"refused"`
	// Outages are how long the gate was shut, and Met how many of these times
	// it met somebody.
	Outages []time.Duration `json:"outages,omitempty"`
	Met     int             `json:"met"`
}

// order is what the measuring process wants of the backend, a line each.
type order struct {
	// Listen begins a new count at an address of its own, and Hold makes each
	// answer wait for the end of the run.
	Listen string `json:"listen,omitempty"`
	Hold   bool   `json:"hold,omitempty"`
	// Shut shuts the gate so many times for so long, with 10 to 30 ms between.
	Shut  time.Duration `json:"shut,omitempty"`
	Times int           `json:"times,omitempty"`
	// Tell asks for the count, with Arrivals if they are wanted, and End closes
	// what is open.
	Tell     bool `json:"tell,omitempty"`
	Arrivals bool `json:"arrivals,omitempty"`
	End      bool `json:"end,omitempty"`
}

// backendMain serves until its input ends. It answers each order with a line.
func backendMain(ctx context.Context) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	b := &backend{}
	var listener net.Listener
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("an order to the backend: %w", err)
		}
		switch {
		case o.Listen != "":
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
			if err != nil {
				return fmt.Errorf("the backend: %w", err)
			}
			listener = l
			b.begin(o.Hold)
			go b.accept(l)
		case o.Shut > 0:
			b.outages(o.Shut, o.Times)
		case o.End:
			_ = listener.Close()
			b.end()
		}
		if err := out.Encode(b.told(o.Arrivals)); err != nil {
			return fmt.Errorf("the backend's answer: %w", err)
		}
	}
}

func (b *backend) begin(hold bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.count, b.ledger = map[net.Conn]bool{}, count{}, make([]time.Duration, 0, 1<<17)
	b.holds, b.held = hold, make(chan struct{})
}

func (b *backend) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.held)
	for c := range b.open {
		_ = c.Close()
	}
}

func (b *backend) told(arrivals bool) count {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.count
	c.Open = len(b.open)
	if arrivals {
		c.Arrivals = b.ledger
	}
	return c
}

func (b *backend) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if b.opened(c) {
			go b.serve(c)
		}
	}
}

// opened counts a connection, or resets it.
func (b *backend) opened(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count.Opened++
	if b.shut {
		b.refuse(c)
		return false
	}
	b.open[c] = true
	return true
}

// refuse resets a connection: the lock is held.
func (b *backend) refuse(c net.Conn) {
	b.count.Refused++
	b.hit = true
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// came counts a request, or resets its connection. It says whether its answer
// has to wait.
func (b *backend) came(c net.Conn, at time.Duration) (ok bool, wait chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		b.refuse(c)
		return false, nil
	}
	b.count.Requests++
	b.ledger = append(b.ledger, at)
	if b.holds {
		wait = b.held
	}
	return true, wait
}

func (b *backend) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		b.mu.Lock()
		delete(b.open, c)
		b.mu.Unlock()
	}()
	r := bufio.NewReaderSize(c, 1<<10)
	var body [work.SmallBytes]byte
	for {
		id, last, err := request(r)
		if err != nil {
			return
		}
		ok, wait := b.came(c, timeline.Monotonic())
		if !ok {
			return
		}
		if wait != nil {
			<-wait
			return
		}
		_, _ = io.ReadFull(work.Body(id, work.SmallBytes), body[:])
		answer := append(make([]byte, 0, 512), "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 256\r\n"...)
		if last {
			answer = append(answer, "Connection: close\r\n"...)
		}
		answer = append(append(answer, "\r\n"...), body[:]...)
		if _, err := c.Write(answer); err != nil || last {
			return
		}
	}
}

// request reads a request's header: its ID, and whether it is the last.
func request(r *bufio.Reader) (id string, last bool, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return id, last, nil
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case len(name) == len(work.HeaderID) && strings.EqualFold(string(name), work.HeaderID):
			id = string(value)
		case len(name) == len("Connection") && strings.EqualFold(string(name), "Connection"):
			last = strings.EqualFold(string(value), "close")
		}
	}
}

// outages shuts the gate at random instants. The waits are those of a timer, and
// what a timer makes of them is noted.
func (b *backend) outages(length time.Duration, times int) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for range times {
		timer.Reset(10*time.Millisecond + rand.N(20*time.Millisecond))
		<-timer.C
		b.mu.Lock()
		b.shut, b.hit = true, false
		b.mu.Unlock()
		begun := timeline.Monotonic()
		timer.Reset(length)
		<-timer.C
		b.mu.Lock()
		b.shut = false
		if b.hit {
			b.count.Met++
		}
		b.count.Outages = append(b.count.Outages, timeline.Monotonic()-begun)
		b.mu.Unlock()
	}
}
