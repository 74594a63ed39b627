// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// tunnel is a connection of HTTP/2 in which each attempt opens a stream by CONNECT (RFC 9113
// section 8.5), and speaks HTTP/1.1 with who was connected. What is told of it is told of the
// tunnel: its GOAWAYs, the resets of its streams, its end.
type tunnel struct{ *h2 }

// vacantPort is where nobody listens: that of a service which hardly anybody has had since 1989.
const vacantPort = 1

func (c tunnel) try(ctx context.Context, a *attempt) fate {
	if c.err != nil {
		a.fail(outcome(c.err), c.err)
		return drop
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut() // RST_STREAM, where the stream has not ended
	var p passage
	defer c.tap.forget(&p)
	to := a.stream.Tunnel.To
	if a.stream.client.vacant {
		host, _, _ := net.SplitHostPort(to) // it was checked
		to = net.JoinHostPort(host, strconv.Itoa(vacantPort))
	}
	r, w := io.Pipe()
	defer w.Close()
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: to}, Host: to,
		Header: http.Header{"User-Agent": {userAgent}}, Body: r, ContentLength: -1,
	}
	resp, err := c.cc.RoundTrip(req.WithContext(c.follow(ctx, &p)))
	now, _ := c.tap.of(&p)
	a.StreamID, a.First = now.id, now.first
	switch {
	case err == nil:
	case a.stream.client.vacant && now.reset && now.code != http2.ErrCodeRefusedStream && ctx.Err() == nil:
		// RFC 9113 section 8.5 has RST_STREAM for a connection that fails: that is an answer too.
		a.Outcome, a.Phase, a.End = timeline.OK, timeline.PhaseDone, timeline.Monotonic()
		return c.after(a, &p)
	default:
		return c.fail(ctx, a, err, &p)
	}
	defer resp.Body.Close()
	switch good := resp.StatusCode == http.StatusOK; {
	case a.stream.client.vacant:
		a.told(resp.StatusCode)
		a.Outcome, a.End = timeline.OK, timeline.Monotonic()
	case !good:
		a.told(resp.StatusCode)
		a.fail(timeline.Status, fmt.Errorf("CONNECT: %s", resp.Status))
	default:
		return c.speak(ctx, a, &p, &inner{tunnel: c.nc, in: resp.Body, out: w, over: ctx.Err}, cut)
	}
	return c.after(a, &p)
}

// told notes that the CONNECT came to its end with a status.
func (a *attempt) told(status int) { a.Status, a.Phase = status, timeline.PhaseDone }

// speak makes the request over a stream that stands, and ends that.
func (c tunnel) speak(ctx context.Context, a *attempt, p *passage, in *inner, cut context.CancelFunc) fate {
	a.First = 0
	nobody := &teller{over: true} // what becomes of a stream the tap tells
	h := newH1(ctx, in, newEar(in, nobody), false)
	defer h.close()
	h.try(ctx, a)
	now, seen := c.tap.of(p)
	switch of := a.stream.Profile; {
	case a.Outcome != timeline.OK || of.Op != flow.Abandoned:
	case of.Conns == flow.New:
		c.lose(a.Conn)
		return drop
	default:
		in.abort()
		return c.after(a, p)
	}
	switch a.Outcome {
	case timeline.OK:
		// A half-close goes through to the app, which then ends its own.
		_ = in.CloseWrite()
		t := time.AfterFunc(lastWords, cut)
		defer t.Stop()
		_, _ = io.Copy(io.Discard, in.in)
	case timeline.Status, timeline.Corrupt, timeline.Timeout, timeline.Cancelled:
	default:
		a.EndStream = now.ended
		if now.reset || seen.err != nil || seen.goAway && now.id > seen.lastID {
			c.fail(ctx, a, errors.New(a.Err), p) // which knows why
		}
	}
	return c.after(a, p)
}

// after is what becomes of the tunnel of a stream that is over: it carries more, whatever the app
// behind it said.
func (c tunnel) after(a *attempt, p *passage) fate {
	_, seen := c.tap.of(p)
	a.LastOnConn = seen.goAway
	if seen.over() || a.Outcome == timeline.Timeout || a.Outcome == timeline.Cancelled {
		return drop
	}
	return keep
}

// losses are the ways in which a tunnel ends under what is in it, in turn.
var losses = []string{timeline.PeerByRST, timeline.PeerByFIN, timeline.PeerByCloseNotify}

// lose ends the tunnel under what is in it, the stream's so many-th.
func (c tunnel) lose(num uint64) {
	by := losses[num%uint64(len(losses))]
	c.tap.ear.tell(timeline.FrameClose, "why", whyCut, "by", by)
	under := c.tap.ear.wire
	switch lingers, is := under.(interface{ SetLinger(sec int) error }); {
	case by == timeline.PeerByCloseNotify:
		_ = c.nc.Close()
		return
	case by == timeline.PeerByRST && is:
		_ = lingers.SetLinger(0)
	}
	_ = under.Close()
}

// inner is a stream as a wire of its own. Its deadline is that of the stream's context.
type inner struct {
	tunnel net.Conn
	in     io.ReadCloser
	out    *io.PipeWriter
	over   func() error // why its time is up; nil: it is not
}

var _ wire = (*inner)(nil)

// Read implements net.Conn. What is read no more because the time is up says that, and not that
// somebody closed it.
func (c *inner) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = cmp.Or(c.over(), err)
	}
	return n, err
}

// Write implements net.Conn. Nobody takes more where the other side has ended the stream, or its
// time is up.
func (c *inner) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = cmp.Or(c.over(), io.EOF)
	}
	return n, err
}

// CloseWrite ends the client's half: END_STREAM.
func (c *inner) CloseWrite() error { return c.out.Close() }

// errAbort is why the client's half ends that ends by RST_STREAM.
var errAbort = errors.New("cut by its client")

// abort cuts the stream: no END_STREAM comes before the RST_STREAM.
func (c *inner) abort() { _ = c.out.CloseWithError(errAbort) }

// Close implements net.Conn. A stream whose time is up ends by RST_STREAM alone: to END_STREAM the app
// may answer, and what it answers would come in place of the timeout.
func (c *inner) Close() error { return errors.Join(c.out.CloseWithError(c.over()), c.in.Close()) }

func (c *inner) peek() state                      { return fresh }
func (c *inner) LocalAddr() net.Addr              { return c.tunnel.LocalAddr() }
func (c *inner) RemoteAddr() net.Addr             { return c.tunnel.RemoteAddr() }
func (c *inner) SetDeadline(time.Time) error      { return nil }
func (c *inner) SetReadDeadline(time.Time) error  { return nil }
func (c *inner) SetWriteDeadline(time.Time) error { return nil }

// newMutual is what all tunnels of a stream agree on. The server is known by its SPIFFE ID, which is
// no host name: the library checks a host name or nothing, so that chain and ID are checked here.
func newMutual(s load.Stream) (*tls.Config, error) {
	var errs []error
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.CA)) {
		errs = append(errs, fmt.Errorf("protocol %q: the CA, of %d bytes, has no certificate: want PEM", s.Profile.Protocol, len(s.CA)))
	}
	own, err := tls.X509KeyPair([]byte(s.Tunnel.Cert), []byte(s.Tunnel.Key))
	if err != nil {
		errs = append(errs, fmt.Errorf("protocol %q: the client's own certificate: %w", s.Profile.Protocol, err))
	}
	if s.ServerName == "" {
		errs = append(errs, fmt.Errorf("protocol %q: no server name: want the server's SPIFFE ID", s.Profile.Protocol))
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own}, NextProtos: []string{http2.NextProtoTLS},
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error { return identified(state.PeerCertificates, roots, s.ServerName) },
	}, errors.Join(errs...)
}

// identified says whether a chain of certificates is that of who has an ID.
func identified(chain []*x509.Certificate, roots *x509.CertPool, id string) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	opts := x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if _, err := chain[0].Verify(opts); err != nil {
		return err
	}
	if all := chain[0].URIs; len(all) != 1 || all[0].String() != id {
		return fmt.Errorf("the server is %v, want %s", all, id)
	}
	return nil
}
