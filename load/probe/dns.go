// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
)

// maxAnswer is the EDNS0 buffer size that is offered, in bytes: what passes
// everywhere in one packet, and what CoreDNS uses by default.
const maxAnswer = 1232

// inquiry is what all lookups of a stream ask.
type inquiry struct {
	question dnsmessage.Question
	packed   []byte // the message, with the ID 0
}

func newInquiry(s load.Stream) (*inquiry, error) {
	name, err := dnsmessage.NewName(s.Query)
	if err != nil {
		return nil, err
	}
	q := &inquiry{question: dnsmessage.Question{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}
	if s.IPv6 {
		q.question.Type = dnsmessage.TypeAAAA
	}
	var edns dnsmessage.ResourceHeader
	if err := edns.SetEDNS0(maxAnswer, dnsmessage.RCodeSuccess, false); err != nil {
		return nil, err
	}
	m := dnsmessage.Message{
		Header:      dnsmessage.Header{RecursionDesired: true},
		Questions:   []dnsmessage.Question{q.question},
		Additionals: []dnsmessage.Resource{{Header: edns, Body: &dnsmessage.OPTResource{}}},
	}
	q.packed, err = m.Pack()
	return q, err
}

// message is the inquiry as it goes over the wire.
func (q *inquiry) message(id uint16) []byte {
	b := slices.Clone(q.packed)
	binary.BigEndian.PutUint16(b, id)
	return b
}

// lookup asks once, with one datagram from a socket of its own. A resolver
// would ask again where no answer comes, and hide what is looked for here.
func (s *stream) lookup(ctx context.Context, a *attempt) {
	a.Phase = timeline.PhaseDial
	c, err := apart(s.addr, func() (*net.UDPConn, error) {
		return (&net.Dialer{}).DialUDP(ctx, "udp", netip.AddrPort{}, s.addr)
	})
	if err != nil {
		a.fail(dialOutcome(err), err)
		return
	}
	defer c.Close()
	unhold := context.AfterFunc(s.ctx, func() { _ = c.Close() })
	defer unhold()
	a.Conn, a.Nth, a.Local, a.Dial = s.opened.Add(1), 1, c.LocalAddr().String(), timeline.Monotonic()
	a.Phase = timeline.PhaseWrite
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		a.fail(outcome(err), err)
		return
	}
	id := uint16(rand.Uint32())
	if _, err := c.Write(s.inquiry.message(id)); err != nil {
		a.fail(outcome(err), err)
		return
	}
	a.Sent = timeline.Monotonic()
	a.Phase = timeline.PhaseFirstByte
	// One byte more than was offered: what is longer than that is cut by the
	// kernel, and does not parse.
	var answer [maxAnswer + 1]byte
	n, err := c.Read(answer[:])
	if err != nil {
		// A port that is closed answers by ICMP, which is this socket's
		// connection refused.
		a.fail(outcome(err), err)
		return
	}
	a.First = timeline.Monotonic()
	a.Phase = timeline.PhaseBody
	a.answered(id, answer[:n])
}

// apart dials until the socket is not connected to itself. Where nobody holds
// the port of a server on this machine, the kernel may give it to the socket
// that is to ask there, which then hears its own query: a server that has gone
// would look as one that answers badly. (Go's own Dial does this for TCP.)
func apart(server netip.AddrPort, dial func() (*net.UDPConn, error)) (*net.UDPConn, error) {
	for {
		c, err := dial()
		if err != nil || c.LocalAddr().(*net.UDPAddr).AddrPort() != server {
			return c, err
		}
		// It holds the port until the next has another.
		defer c.Close()
	}
}

// answered judges the answer to a lookup, and ends the attempt.
func (a *attempt) answered(id uint16, answer []byte) {
	var p dnsmessage.Parser
	h, err := p.Start(answer)
	switch {
	case err != nil:
		a.fail(timeline.Malformed, fmt.Errorf("the answer is no DNS message: %w", err))
		return
	case !h.Response || h.ID != id:
		a.fail(timeline.Malformed, fmt.Errorf("no answer to the query: response %v, ID %d, want %d", h.Response, h.ID, id))
		return
	case h.Truncated:
		a.fail(timeline.Truncated, errors.New("the answer says that it is truncated (TC)"))
		return
	}
	var m dnsmessage.Message
	if err := m.Unpack(answer); err != nil {
		a.fail(timeline.Malformed, fmt.Errorf("the answer is no DNS message: %w", err))
		return
	}
	rcode := m.RCode
	for i := range m.Additionals {
		if h := &m.Additionals[i].Header; h.Type == dnsmessage.TypeOPT {
			rcode = h.ExtendedRCode(rcode)
		}
	}
	if rcode != dnsmessage.RCodeSuccess && rcode != dnsmessage.RCodeNameError {
		// The question may be missing: the server may not have understood it.
		a.Status = int(rcode)
		a.fail(timeline.Status, fmt.Errorf("the name server says %v", rcode))
		return
	}
	want := a.stream.inquiry.question
	if len(m.Questions) != 1 || !same(m.Questions[0], want) {
		a.fail(timeline.Malformed, fmt.Errorf("an answer to another question: %v, want %v", m.Questions, want))
		return
	}
	a.Answers = addresses(m.Answers, want.Type)
	a.Outcome, a.Phase, a.End = timeline.OK, timeline.PhaseDone, timeline.Monotonic()
}

// same says whether two questions are: case is none of a name's meaning.
func same(a, b dnsmessage.Question) bool {
	return a.Type == b.Type && a.Class == b.Class && strings.EqualFold(a.Name.String(), b.Name.String())
}

// addresses are those of one type, sorted. They may belong to an alias of the
// name.
func addresses(records []dnsmessage.Resource, of dnsmessage.Type) []string {
	var out []string
	for _, r := range records {
		if r.Header.Type != of || r.Header.Class != dnsmessage.ClassINET {
			continue
		}
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			out = append(out, netip.AddrFrom4(body.A).String())
		case *dnsmessage.AAAAResource:
			out = append(out, netip.AddrFrom16(body.AAAA).String())
		}
	}
	slices.Sort(out)
	return out
}
