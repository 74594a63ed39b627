// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// permanent says whether trying again can't help: the agent answered with a
// refusal, its history has a hole, or one side doesn't trust the other.
func permanent(err error) bool {
	var (
		refused *refusedError
		hole    *holeError
		cert    *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		remote  *net.OpError
	)
	// crypto/tls wraps an alert of the other side so: it did not like our
	// certificate.
	if errors.As(err, &remote) && remote.Op == "remote error" {
		return true
	}
	return errors.As(err, &refused) || errors.As(err, &hole) ||
		errors.As(err, &cert) || errors.As(err, &unknown) || errors.As(err, &host)
}
