// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// members are the identities of the clients, and of systems that take tunnels as processes on this
// host. What stands in network namespaces has those of the bench's own CA. They are of another
// authority than what the agents trust: whoever is tested may speak to others as itself, and not to
// these.
type members struct {
	ca     *pki.Authority
	caFile string
}

// membersNamespace is the namespace in their SPIFFE IDs.
const membersNamespace = "lastcall"

func newMembers(caFile string) (*members, error) {
	ca, err := pki.New("lastcall identities")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(caFile, ca.PEM(), 0o600); err != nil {
		return nil, fmt.Errorf("the CA of identities: %w", err)
	}
	return &members{ca: ca, caFile: caFile}, nil
}

// memberID is the SPIFFE ID of a service account.
func memberID(account string) identity.ID {
	return identity.ID{TrustDomain: identity.TrustDomain, Namespace: membersNamespace, ServiceAccount: account}
}

func (m *members) issue(id identity.ID) (pki.Pair, error) {
	return m.ca.Workload(id.URL(), identity.Validity)
}

// identify gives the instances of a system that takes tunnels, and its clients, an identity for this
// recording.
func (g *ground) identify(cfg *host.Config) (err error) {
	if !cfg.System.Claims(spec.HBONE) {
		return nil
	}
	m, own, peer := g.stage.members, memberID(cfg.System.Metadata.Name), memberID(clientAccount)
	cfg.Place.Identity = system.Identity{ID: own.String(), Peer: peer.String(), CA: m.caFile}
	cfg.Identify = func() (cert, key []byte, err error) {
		p, err := m.issue(own)
		return p.Cert, p.Key, err
	}
	g.identity, err = m.issue(peer)
	return err
}

// tunnel says whom a stream of tunnels is for: one of the apps behind what is ended, and always the
// same one.
func (g *ground) tunnel(s *load.Stream) {
	m := g.stage.members
	s.CA, s.ServerName = string(m.ca.PEM()), memberID(g.subject.Metadata.Name).String()
	apps := g.stands.Backends()
	app := apps[s.Seed%uint64(len(apps))]
	s.Tunnel = load.Tunnel{
		To:   net.JoinHostPort(app.Address, strconv.Itoa(app.HTTP)),
		Cert: string(g.identity.Cert), Key: string(g.identity.Key),
	}
}
