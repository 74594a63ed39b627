// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// check says what is wrong with a stream, all of it, and reads its address.
func check(s load.Stream) (netip.AddrPort, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Name == (flow.Stream{}) {
		bad("no name: samples are found by it")
	}
	addr, err := netip.ParseAddrPort(s.Addr)
	if err != nil || addr.Port() == 0 {
		bad("address %q: want an IP and a port, as in 10.0.0.1:80 or [fd00::1]:80", s.Addr)
	}
	if r := from(s); s.From != "" && (!r.IsValid() || !r.Addr().Is4()) {
		bad("from %q: want a range of IPv4 addresses, as in 127.9.8.0/28", s.From)
	}
	p := s.Profile
	if p.Op.Known() {
		errs = append(errs, ofTime(p)...)
	} else {
		bad("op %q: want one of %q", p.Op, flow.Ops())
	}
	if all := p.Op.Protocols(); !slices.Contains(all, p.Protocol) {
		bad("op %q over protocol %q: want one of %q", p.Op, p.Protocol, all)
	}
	if all := p.Op.Conns(); !slices.Contains(all, p.Conns) {
		bad("op %q with conns %q: want one of %q", p.Op, p.Conns, all)
	}
	if p.Conns == flow.Shared && p.Protocol.HTTP() != 2 {
		bad("conns %q over protocol %q: want one of %q", p.Conns, p.Protocol, []flow.Protocol{flow.H2C, flow.H2, flow.HBONE})
	}
	if len(s.Pages) > 0 && !p.Op.Paged() {
		bad("op %q of pages: want one of %q", p.Op, slices.DeleteFunc(flow.Ops(), func(o flow.Op) bool { return !o.Paged() }))
	}
	for _, page := range s.Pages {
		if u, err := url.ParseRequestURI(page.Path); err != nil || u.Path == "" || page.Path[0] != '/' || page.Status < 200 || page.Status > 299 {
			bad("page %q with status %d: want a path and a status from 200 to 299", page.Path, page.Status)
		}
	}
	if p.Op == flow.Lookup {
		if _, err := newInquiry(s); err != nil {
			bad("query %q: want a name with its final dot: %w", s.Query, err)
		}
	} else if s.Query != "" || s.IPv6 {
		bad("op %q asks for no name: query %q and ipv6 %v are of no use", p.Op, s.Query, s.IPv6)
	}
	if _, err := newTLS(s); err != nil {
		errs = append(errs, err)
	}
	if to, err := netip.ParseAddrPort(s.Tunnel.To); p.Protocol.Tunnels() && (err != nil || to.Port() == 0) {
		bad("tunnel to %q: want the app's IP and port, as in 10.0.0.1:80", s.Tunnel.To)
	} else if !p.Protocol.Tunnels() && s.Tunnel != (load.Tunnel{}) {
		bad("protocol %q has no tunnels: one to %q is of no use", p.Protocol, s.Tunnel.To)
	}
	// To connect and to be answered takes two ways each, and a handshake four
	// at most.
	ways := time.Duration(4)
	if p.Protocol.Secure() {
		ways = 8
	}
	if p.Protocol.Tunnels() {
		ways = 10 // the CONNECT has an answer of its own
	}
	if math.IsNaN(p.Rate) || p.Rate <= 0 || p.Rate > MaxRate {
		bad("rate %v: want requests per second, above 0 and up to %d", p.Rate, MaxRate)
	}
	switch {
	case p.Delay < 0:
		bad("delay %v: want 0 or above", p.Delay)
	case p.Delay > 0 && p.Protocol == flow.DNS:
		bad("delay %v: over protocol %q there is none", p.Delay, p.Protocol)
	case p.Delay > s.Timeout/ways:
		bad("delay %v: %d times that must fit into the timeout, %v", p.Delay, ways, s.Timeout)
	}
	if s.Tolerance <= 0 {
		bad("tolerance %v: want how late an attempt may start, above 0", s.Tolerance)
	}
	if s.Timeout <= 0 {
		bad("timeout %v: want a bound on an attempt, above 0", s.Timeout)
	}
	return addr, errors.Join(errs...)
}

// ofTime says what is wrong with how long an operation takes.
func ofTime(p load.Profile) []error {
	switch takes := p.Op.Takes(); {
	case !takes && p.Takes != 0:
		return []error{fmt.Errorf("op %q takes no time of its own: takes is %v, want 0", p.Op, p.Takes)}
	case takes && p.Takes < time.Millisecond:
		return []error{fmt.Errorf("op %q: takes is %v, want 1ms at least", p.Op, p.Takes)}
	default:
		return nil
	}
}

// from is the range that a stream dials from; the zero value where it names none.
func from(s load.Stream) netip.Prefix {
	p, err := netip.ParsePrefix(s.From)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
