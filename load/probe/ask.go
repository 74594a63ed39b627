// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/load"
)

// askFor bounds one question: who is to be reached answers at once.
const askFor = 3 * time.Second

// Ask asks for a path once, by GET in HTTP/1.1, at a stream's address or through a tunnel of the
// stream's own. The error says why nobody answered: that somebody accepts is no answer, as a proxy
// on the way accepts whoever is behind it.
func (Generator) Ask(ctx context.Context, s load.Stream, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, askFor, fmt.Errorf("no answer within %s", askFor))
	defer cancel()
	mutual, err := newTLS(s)
	if err != nil {
		return err
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	question := []byte("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + userAgent + "\r\nConnection: close\r\n\r\n")
	if !s.Profile.Protocol.Tunnels() {
		return heardBack(ctx, c, func() error { _, err := c.Write(question); return err })
	}
	conn := tls.Client(c, mutual)
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("the TLS handshake: %w", err)
	}
	cc, err := (&http2.Transport{DisableCompression: true}).NewClientConn(conn)
	if err != nil {
		return err
	}
	defer cc.Close()
	in, out := io.Pipe()
	defer out.Close()
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: s.Tunnel.To}, Host: s.Tunnel.To,
		Header: http.Header{"User-Agent": {userAgent}}, Body: in, ContentLength: -1,
	}
	resp, err := cc.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("CONNECT: %s", resp.Status)
	}
	return heardBack(ctx, resp.Body, func() error { _, err := io.Copy(out, bytes.NewReader(question)); return err })
}

// heardBack says whether a byte comes back for what is said.
func heardBack(ctx context.Context, from io.Reader, say func() error) error {
	if err := say(); err != nil {
		return err
	}
	_, err := io.ReadFull(from, make([]byte, 1))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it ended without an answer")
	}
	return err
}
