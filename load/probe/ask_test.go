// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Who answers was reached, by whichever way, and who only accepts was not.
func TestAsk(t *testing.T) {
	m := newMesh(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) })
	// What was sent is read before the close: a close above unread bytes is a reset.
	mute := accept(t, func(_ int, c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 4096))
		_ = c.Close()
	})
	l := listen(t)
	vacant := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	direct := func(addr string) load.Stream {
		return load.Stream{Addr: addr, Profile: load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1}}}
	}
	tunnel := func(to string) load.Stream {
		s := m.stream(load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 1})
		s.Tunnel.To = to
		return s
	}
	for name, tc := range map[string]struct {
		stream load.Stream
		why    string
	}{
		"who answers":                   {direct(m.app), ""},
		"who closes":                    {direct(mute), "without an answer"},
		"nobody":                        {direct(vacant), "refused"},
		"through a tunnel":              {tunnel(m.app), ""},
		"through a tunnel, to nobody":   {tunnel(vacant), "CONNECT: "},
		"through a tunnel that is none": {func() load.Stream { s := tunnel(m.app); s.Addr = mute; return s }(), "the TLS handshake"},
	} {
		err := Generator{}.Ask(t.Context(), tc.stream, "/drain")
		if (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
