// SPDX-License-Identifier: Apache-2.0

package host

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A system that takes tunnels and its clients know each other by the identities that they are given; one
// that takes none has no identity.
func TestIdentify(t *testing.T) {
	m, err := newMembers(filepath.Join(t.TempDir(), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{stage: &Stage{shared: &shared{members: m}}}
	sys := &system.System{Metadata: system.Metadata{Name: "tunnels"}, Features: []spec.Feature{spec.HBONE}}
	g.subject = behaviour.Subject{System: sys, Named: true}
	cfg := host.Config{System: sys}
	if err := g.identify(&cfg); err != nil {
		t.Fatal(err)
	}
	cert, key, err := cfg.Identify()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := os.ReadFile(cfg.Place.Identity.CA)
	if err != nil {
		t.Fatal(err)
	}
	server, err := identity.Held(cert, key, roots)
	if err != nil {
		t.Fatal(err)
	}
	client, err := identity.Held(g.identity.Cert, g.identity.Key, roots)
	if err != nil {
		t.Fatal(err)
	}
	if server.ID.String() != cfg.Place.Identity.ID || client.ID.String() != cfg.Place.Identity.Peer || server.ID == client.ID {
		t.Errorf("%v and %v, as %+v", server.ID, client.ID, cfg.Place.Identity)
	}
	a, b := net.Pipe()
	far := tls.Server(b, server.Server())
	ended := make(chan error, 1)
	go func() { ended <- far.Handshake() }()
	near := tls.Client(a, client.Client(server.ID))
	if err := near.HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := far.ConnectionState().PeerCertificates[0].URIs; len(got) != 1 || got[0].String() != cfg.Place.Identity.Peer {
		t.Error(got)
	}

	none := host.Config{System: &system.System{Features: []spec.Feature{spec.HTTP1}}}
	if err := g.identify(&none); err != nil || none.Identify != nil || none.Place.Identity != (system.Identity{}) {
		t.Errorf("%+v, %v", none.Place.Identity, err)
	}
}
