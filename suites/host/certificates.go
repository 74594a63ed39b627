// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// The service accounts of clients of tunnels with certificates of their own.
const (
	runsOutAccount = "lastcall-runs-out"
	renewsAccount  = "lastcall-renews"
)

const (
	// runsOutAfter is how long a certificate of theirs is good for: longer than it takes until their tunnels have as many
	// connections in them as they will.
	runsOutAfter = 10 * time.Second
	// renewedBefore is how long before that the one who renews shows another one.
	renewedBefore = 3 * time.Second
)

// runOut has clients of tunnels begin whose certificates run out soon, and tells when they have.
func (m *meshed) runOut(ctx context.Context) error {
	if !slices.ContainsFunc(m.scenario.Traffic, func(p load.Profile) bool { return behaviour.Certified(p.Flow) }) {
		return nil
	}
	first, err := m.certified(ctx, behaviour.RunningOut, runsOutAccount, runsOutAfter)
	if err != nil {
		return err
	}
	second, err := m.certified(ctx, behaviour.Renewing, renewsAccount, runsOutAfter)
	if err != nil {
		return err
	}
	if err := disrupt.Pause(ctx, time.Until(second)-renewedBefore); err != nil {
		return err
	}
	if _, err := m.certified(ctx, behaviour.Renewed, renewsAccount, identity.Validity); err != nil {
		return err
	}
	for _, end := range []struct {
		at      time.Time
		of      load.Profile
		account string
	}{{first, behaviour.RunningOut, runsOutAccount}, {second, behaviour.Renewing, renewsAccount}} {
		if err := disrupt.Pause(ctx, time.Until(end.at)); err != nil {
			return err
		}
		m.sink.Event(timeline.Event{
			At: timeline.Monotonic() + time.Until(end.at), Source: "runner", Kind: timeline.CertificateEnds, Subject: m.id(end.account).String(), Name: end.account,
			Attrs: map[string]string{"flow": end.of.Flow.String()},
		})
	}
	return nil
}

// certified begins a flow of a client that has a certificate of its own, and says until when that is good. Its rate is the
// recording's.
func (m *meshed) certified(ctx context.Context, p load.Profile, account string, validity time.Duration) (until time.Time, err error) {
	pair, err := m.bench.ca.Workload(m.id(account).URL(), validity)
	if err != nil {
		return until, err
	}
	own, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return until, fmt.Errorf("the certificate of %s: %w", account, err)
	}
	if i := slices.IndexFunc(m.scenario.Traffic, func(q load.Profile) bool { return q.Flow == p.Flow }); i >= 0 {
		p = m.scenario.Traffic[i]
	}
	all, err := m.streams(p)
	if err != nil {
		return until, err
	}
	for i := range all {
		all[i].Tunnel.Cert, all[i].Tunnel.Key = string(pair.Cert), string(pair.Key)
	}
	return own.Leaf.NotAfter, m.probe.Start(ctx, all...)
}
