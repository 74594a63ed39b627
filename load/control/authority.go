// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ServerName is the name that every agent's certificate carries: an agent is
// known by the run's own authority, never by its address.
const ServerName = "lastcall-agent"

// lifetime of an authority and of what it signs: longer than any run.
const lifetime = 24 * time.Hour

// Authority is a run's own certificate authority. Its key never leaves the
// process that made it.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes an authority (ECDSA P-256, valid 24 h).
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	t := template(serial, "lastcall run authority")
	t.IsCA, t.BasicConstraintsValid = true, true
	t.MaxPathLenZero = true
	t.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the authority back: %w", err)
	}
	return &Authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// Server signs for an agent. It may serve under ServerName and hosts, and it
// may not speak to agents.
func (a *Authority) Server(hosts ...string) (Credentials, error) {
	return a.sign("lastcall agent", x509.ExtKeyUsageServerAuth, append([]string{ServerName}, hosts...))
}

// Client signs for what speaks to agents.
func (a *Authority) Client() (Credentials, error) {
	return a.sign("lastcall runner", x509.ExtKeyUsageClientAuth, nil)
}

func (a *Authority) sign(name string, use x509.ExtKeyUsage, hosts []string) (Credentials, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Credentials{}, fmt.Errorf("making a key for %s: %w", name, err)
	}
	serial, err := newSerial()
	if err != nil {
		return Credentials{}, err
	}
	t := template(serial, name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{use}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return Credentials{}, fmt.Errorf("signing for %s: %w", name, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Credentials{}, fmt.Errorf("encoding the key of %s: %w", name, err)
	}
	return Credentials{CA: a.pem, Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}, nil
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	return n, nil
}

func template(serial *big.Int, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-5 * time.Minute), // clocks of nodes differ
		NotAfter:     now.Add(lifetime),
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
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
