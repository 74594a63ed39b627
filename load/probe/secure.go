// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
)

// newTLS is what all connections of a stream agree on, or nil: it has no TLS.
// Each makes a whole handshake: a resumed session would hide what a new client
// meets.
func newTLS(s load.Stream) (*tls.Config, error) {
	if !s.Profile.Protocol.Secure() {
		if len(s.CA) > 0 || s.ServerName != "" {
			return nil, fmt.Errorf("protocol %q has no TLS: a CA and server name %q are of no use", s.Profile.Protocol, s.ServerName)
		}
		return nil, nil
	}
	if s.Profile.Protocol.Tunnels() {
		return newMutual(s)
	}
	var errs []error
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.CA)) {
		errs = append(errs, fmt.Errorf("protocol %q: the CA, of %d bytes, has no certificate: want PEM", s.Profile.Protocol, len(s.CA)))
	}
	if s.ServerName == "" {
		errs = append(errs, fmt.Errorf("protocol %q: no server name: want the one that the server's certificate is for", s.Profile.Protocol))
	}
	alpn := "http/1.1"
	if s.Profile.Protocol.HTTP() == 2 {
		alpn = http2.NextProtoTLS
	}
	return &tls.Config{
		RootCAs: roots, ServerName: s.ServerName, NextProtos: []string{alpn},
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
	}, errors.Join(errs...)
}

// secure is a wire in TLS.
type secure struct {
	*tls.Conn
	ear *ear
	run func(func()) // starts what ends with the ear
}

// newSecure makes the handshake over e, whatever comes of it.
func newSecure(ctx context.Context, e *ear, c *tls.Config, run func(func())) (*secure, error) {
	s := &secure{tls.Client(e, c), e, run}
	if err := s.HandshakeContext(ctx); err != nil {
		s.heard(err)
		return nil, err
	}
	// HTTP/1.1 is also what a server speaks that knows nothing of ALPN.
	if got := s.ConnectionState().NegotiatedProtocol; slices.Contains(c.NextProtos, http2.NextProtoTLS) && got != http2.NextProtoTLS {
		return nil, fmt.Errorf("ALPN agreed on %q, want %q", got, http2.NextProtoTLS)
	}
	return s, nil
}

// Read implements net.Conn.
func (s *secure) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil {
		s.heard(err)
	}
	return n, err
}

// heard tells how the peer ends the TLS connection. crypto/tls gives io.EOF for
// a close_notify, and the same for a FIN between two records: there the socket
// has said it first.
func (s *secure) heard(err error) {
	var remote *net.OpError
	switch {
	case errors.Is(err, io.EOF) && !s.ear.fin.Load():
		s.ear.tell(timeline.FrameCloseNotify)
	case errors.As(err, &remote) && remote.Op == "remote error":
		s.ear.tell(timeline.FrameAlert, "alert", strings.TrimPrefix(remote.Err.Error(), "tls: "))
	default:
		return
	}
	s.ear.leave()
	// The socket's end comes behind it.
	_ = s.ear.SetReadDeadline(time.Time{})
	s.ear.rest(s.run)
}

// peek takes what is being read for unread: session tickets come unasked, and
// what a record is shows only when it is decrypted.
func (s *secure) peek() state {
	st := s.ear.peek()
	if st == fresh && !s.ear.reading.Load() {
		return unread
	}
	return st
}
