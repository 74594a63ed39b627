// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/peer"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// peerHealth is the port at which a peer of the suite's own is asked and told.
const peerHealth = 15021

// ownPeer is the data path that discovery takes a pod of ours for: it is of no mesh's programs.
const ownPeer = "own"

// openPeers puts up the peers of the suite's own that flows go to: an app each, and before it, in the
// place of a sidecar, a server of tunnels that is none of the mesh's (load/peer). Nothing is
// redirected there. It returns the streams.
func (m *meshed) openPeers(ctx context.Context, ended host.Config, flows []load.Profile) ([]load.Stream, error) {
	if len(flows) == 0 {
		return nil, nil
	}
	if err := m.watchWire(); err != nil {
		return nil, err
	}
	m.peers = map[flow.Path]*host.Fleet{}
	var streams []load.Stream
	for _, p := range flows {
		fleet := m.peers[p.Path]
		if fleet == nil {
			var err error
			if fleet, err = m.openOwnPeer(ctx, ended, p.Path); err != nil {
				return nil, fmt.Errorf("the peer %s: %w", p.Path, err)
			}
			m.peers[p.Path] = fleet
		}
		addr := fleet.Instances()[0].Backend().Address
		streams = append(streams, m.stream(p, "", addr, m.subject.Ports[behaviour.PortOf(p.Protocol)]))
	}
	return streams, nil
}

func (m *meshed) openOwnPeer(ctx context.Context, ended host.Config, path flow.Path) (*host.Fleet, error) {
	sys := *m.subject.System
	sys.Metadata.Name = string(path)
	cfg := ended
	cfg.System, cfg.Replicas, cfg.Dir, cfg.Rendered = &sys, 1, filepath.Join(ended.Dir, string(path)), ""
	cfg.Emit = func(e timeline.Event) { m.backstage(e) }
	cfg.Pods = m.in(func(p system.Place, on int) (host.Beside, error) { return m.ownPeer(path, p, on) })
	cfg.Place.MinDrain, cfg.Place.Unready, cfg.Place.Timeout, cfg.Place.Grace = backendDrain, backendDrain, backendDeadline, backendGrace
	cfg.Place.Form, cfg.Place.Fault, cfg.Place.Calls = system.Native, "", ""
	return host.Open(ctx, cfg)
}

// ownPeer announces the pod of a peer as one in the mesh, with an identity of its own, and says what
// is in it beside the app.
func (m *meshed) ownPeer(path flow.Path, place system.Place, on int) (host.Beside, error) {
	account := string(path)
	u, err := url.Parse(m.id(account).String())
	if err != nil {
		return host.Beside{}, err
	}
	cred, err := m.bench.ca.Workload(u, identity.Validity)
	if err != nil {
		return host.Beside{}, err
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.namespace, Name: place.Name, UID: types(place.UID),
			Annotations: map[string]string{meshapi.DataplaneAnnotation: ownPeer},
		},
		Spec: corev1.PodSpec{NodeName: host.Node(on), ServiceAccountName: account, Containers: []corev1.Container{{Name: echoName, Image: "none"}}},
	}
	if pod.Status, err = m.bench.running(place.Address); err != nil {
		return host.Beside{}, err
	}
	if err := m.tell(pod); err != nil {
		return host.Beside{}, err
	}
	return host.Beside{
		Name: "peer", Native: true, Port: peerHealth, Path: peer.ReadyPath,
		Sidecar: system.Process{
			Command: append(slices.Clone(m.stage.cfg.Agent), "peer", "--path="+string(path),
				"--listen=:"+strconv.Itoa(redirect.TunnelPort), "--health=:"+strconv.Itoa(peerHealth), "--tls=.",
				"--pod-uid="+place.UID+"-peer", "--node="+host.Node(on), "--ledger="+m.ledger),
			Env: []string{"GOMAXPROCS=1", "GOGC=400"},
			Files: map[string]string{
				control.CAFile: string(m.bench.ca.PEM()), control.CertFile: string(cred.Cert), control.KeyFile: string(cred.Key),
			},
		},
	}, nil
}

// misbehaves says whether a flow of the clients' begins with the disruption, because it is them who misbehave.
func (m *meshed) misbehaves(p load.Profile) bool {
	return m.scenario.Disrupt.Kind == disrupt.Peers && (p.Op == flow.Drip || behaviour.Certified(p.Flow))
}

// misbehave has the peers of the suite's own do so, the clients among them.
func (m *meshed) misbehave(ctx context.Context) error {
	if err := m.done(ctx, m.beginPeers); err != nil {
		return err
	}
	for _, p := range m.scenario.Traffic {
		if p.Op != flow.Drip {
			continue
		}
		all, err := m.streams(p)
		if err != nil {
			return err
		}
		if err := m.probe.Start(ctx, all...); err != nil {
			return err
		}
	}
	begun := time.Now()
	if err := m.runOut(ctx); err != nil {
		return err
	}
	return disrupt.Pause(ctx, m.scenario.Disrupt.For-time.Since(begun))
}

// beginPeersWithin is how long it may take until all peers misbehave.
const beginPeersWithin = 10 * time.Second

func (m *meshed) beginPeers(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beginPeersWithin, fmt.Errorf("not within %s", beginPeersWithin))
	defer cancel()
	client := host.Client(m.bench.network)
	defer client.CloseIdleConnections()
	for path, fleet := range m.peers {
		to := "http://" + net.JoinHostPort(fleet.Instances()[0].Backend().Address, strconv.Itoa(peerHealth)) + peer.BeginPath
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("telling the peer %s to misbehave: %w", path, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("telling the peer %s to misbehave: %s", path, resp.Status)
		}
	}
	return nil
}

// closePeers removes them.
func (m *meshed) closePeers(ctx context.Context) error {
	var errs []error
	for _, fleet := range m.peers {
		errs = append(errs, fleet.Close(ctx))
	}
	return errors.Join(errs...)
}
