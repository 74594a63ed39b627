// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// newcomer is the workload at whose pod others' addresses come back, and its service account.
const newcomer = "newcomer"

const (
	// unheardFor is how long discovery goes on to tell of the pod that is gone when another one is ready at its
	// address, and ownFor how long the other one is looked at behind that.
	unheardFor = 6 * time.Second
	ownFor     = 5 * time.Second
)

// reuseAddresses takes the first pod of each node away, and gives its address to a newcomer.
func (m *meshed) reuseAddresses(ctx context.Context) error {
	return m.toOneOnEach(ctx, "giving the address of %s to another one", m.reuseAddress)
}

func (m *meshed) reuseAddress(ctx context.Context, old *host.Instance) error {
	heard, err := old.Lose()
	if err != nil {
		return err
	}
	var pod *corev1.Pod
	sys := *m.subject.System
	sys.Metadata.Name = newcomer + "-" + old.Node()
	cfg := m.made
	cfg.System, cfg.Replicas, cfg.Dir, cfg.Rendered = &sys, 1, filepath.Join(m.made.Dir, sys.Metadata.Name), ""
	cfg.Emit = func(e timeline.Event) { m.backstage(e) }
	cfg.Place.Fault, cfg.Place.Calls = "", ""
	cfg.Pods = &host.Pods{Network: m.bench.network, InPlaceOf: old.Network(), Beside: func(p system.Place, on int) (b host.Beside, err error) {
		pod, b, err = m.newcomer(p, on)
		return b, err
	}}
	fleet, err := host.Open(ctx, cfg)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.newcomers = append(m.newcomers, fleet)
	m.mu.Unlock()
	next := fleet.Instances()[0]
	tell := func(kind timeline.EventKind) {
		m.sink.Event(timeline.Event{Source: node, Kind: kind, Subject: next.UID(), Name: next.Name(), Node: next.Node(), Attrs: map[string]string{
			"address": next.Backend().Address, "of": old.UID(),
		}})
	}
	tell(timeline.AddressReused)
	if err := disrupt.Pause(ctx, unheardFor); err != nil {
		return err
	}
	heard()
	if pod.Status, err = m.bench.running(next.Backend().Address); err != nil {
		return err
	}
	if err := m.tell(pod); err != nil {
		return err
	}
	tell(timeline.AddressListed)
	var all []load.Stream
	for _, p := range m.scenario.Traffic {
		if p.Path != flow.Direct || p.Conns != flow.New || p.Op != flow.Get {
			continue
		}
		s := m.stream(p, next.UID(), next.Backend().Address, m.subject.Ports[behaviour.PortOf(p.Protocol)])
		s.ServerName = m.id(newcomer).String()
		all = append(all, s)
	}
	if err := m.probe.Start(ctx, all...); err != nil {
		return err
	}
	return disrupt.Pause(ctx, ownFor)
}

// newcomer makes a newcomer's pod, whose address the API server does not know before its containers run, and says what
// is beside its app.
func (m *meshed) newcomer(place system.Place, on int) (*corev1.Pod, host.Beside, error) {
	template, err := m.template(place)
	if err != nil {
		return nil, host.Beside{}, err
	}
	template.Labels[appLabel] = newcomer
	pod, err := m.bench.admit(m.namespace, host.Node(on), place.Name, place.UID, place.Address, template)
	if err != nil {
		return nil, host.Beside{}, err
	}
	pod.Spec.ServiceAccountName, pod.Status.PodIP, pod.Status.PodIPs = newcomer, "", nil
	if err := m.tell(pod); err != nil {
		return nil, host.Beside{}, err
	}
	n := m.nodeOf(pod)
	if n == nil {
		return nil, host.Beside{}, errors.New("no node's proxy serves it")
	}
	b, err := n.furnish(pod)
	return pod, b, err
}

// closeNewcomers removes them.
func (m *meshed) closeNewcomers(ctx context.Context) error {
	m.mu.Lock()
	all := m.newcomers
	m.mu.Unlock()
	var errs []error
	for _, fleet := range all {
		errs = append(errs, fleet.Close(ctx))
	}
	return errors.Join(errs...)
}
