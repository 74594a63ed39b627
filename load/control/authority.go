// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lastcall-dev/lastcall/fixtures/pki"
)

// ServerName is the name that every agent's certificate carries: an agent is
// known by the run's own authority, never by its address.
const ServerName = "lastcall-agent"

// Authority is a run's own certificate authority, as the agents' channel uses it.
type Authority struct{ own *pki.Authority }

// NewAuthority makes an authority (ECDSA P-256, valid 24 h).
func NewAuthority() (*Authority, error) {
	own, err := pki.New("lastcall run authority")
	if err != nil {
		return nil, err
	}
	return &Authority{own}, nil
}

// Server signs for an agent. It may serve under ServerName and hosts, and it
// may not speak to agents.
func (a *Authority) Server(hosts ...string) (Credentials, error) {
	return a.sign("lastcall agent", x509.ExtKeyUsageServerAuth, append([]string{ServerName}, hosts...)...)
}

// Client signs for what speaks to agents.
func (a *Authority) Client() (Credentials, error) {
	return a.sign("lastcall runner", x509.ExtKeyUsageClientAuth)
}

func (a *Authority) sign(name string, use x509.ExtKeyUsage, hosts ...string) (Credentials, error) {
	p, err := a.own.Sign(name, use, hosts...)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{CA: a.own.PEM(), Cert: p.Cert, Key: p.Key}, nil
}

// The names of the files, as a Kubernetes Secret of type kubernetes.io/tls
// has them.
const (
	CAFile   = "ca.crt"
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// Credentials are one party's certificate and key with the authority that
// both parties trust, and nothing else: all three in PEM.
type Credentials struct{ CA, Cert, Key []byte }

// Files are the credentials as a Secret's data or a folder's files.
func (c Credentials) Files() map[string][]byte {
	return map[string][]byte{CAFile: c.CA, CertFile: c.Cert, KeyFile: c.Key}
}

// ReadCredentials reads the files of Files from a folder.
func ReadCredentials(dir string) (Credentials, error) {
	var c Credentials
	var errs []error
	for name, to := range map[string]*[]byte{CAFile: &c.CA, CertFile: &c.Cert, KeyFile: &c.Key} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		errs = append(errs, err)
		*to = b
	}
	if err := errors.Join(errs...); err != nil {
		return Credentials{}, fmt.Errorf("reading credentials (a folder with %s, %s and %s): %w", CAFile, CertFile, KeyFile, err)
	}
	return c, nil
}

// ServerTLS is the configuration of an agent: TLS 1.3, and a client that the
// authority did not sign gets nothing.
func (c Credentials) ServerTLS() (*tls.Config, error) {
	cert, pool, err := c.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
	}, nil
}

// ClientTLS is the configuration of what speaks to agents.
func (c Credentials) ClientTLS() (*tls.Config, error) {
	cert, pool, err := c.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		RootCAs:      pool,
		ServerName:   ServerName,
	}, nil
}

func (c Credentials) parse() (tls.Certificate, *x509.CertPool, error) {
	cert, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("credentials: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CA) {
		return tls.Certificate{}, nil, fmt.Errorf("credentials: %s holds no certificate", CAFile)
	}
	return cert, pool, nil
}
