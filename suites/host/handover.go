// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// handedOver is how many controllers a mesh has whose controllers are ended.
const handedOver = 2

// subscriberName is the suite's own client of discovery.
const subscriberName = "subscriber"

const (
	// settles is how long nothing is done to the controllers between two of their ends: proxies have
	// come to the other one by then.
	settles = 4 * time.Second
	// away is for how long there is no controller at all. An app that is told to go at its begin accepts
	// for longer.
	away = 3 * time.Second
	// comesEvery is how often a pod comes, and livesFor how long it is there.
	comesEvery = 400 * time.Millisecond
	livesFor   = 3 * time.Second
)

// handsOver says whether the mesh's controllers are what is ended: they are the recording's own then.
func (m *meshed) handsOver() bool { return m.scenario.Disrupt.Kind == disrupt.HandOver }

// openMesh is the mesh that the recording is in.
func (m *meshed) openMesh(ctx context.Context) (*meshBench, error) {
	if !m.handsOver() {
		return m.stage.meshBench(ctx)
	}
	dir := filepath.Join(m.stage.dir, m.scenario.Name, "mesh")
	return m.stage.openBench(ctx, dir, filepath.Join(m.stage.cfg.Logs, m.scenario.Name, meshLogs), handedOver)
}

// openSubscriber puts up the suite's own client of discovery, in a pod outside of the mesh.
func (m *meshed) openSubscriber(dir, logs string) (err error) {
	if m.subscriber, err = host.OpenPod(m.bench.network, 0, subscriberName, filepath.Join(dir, subscriberName), logs); err != nil {
		return err
	}
	running, err := m.subscriber.Run(subscriberName, system.Process{
		Command: append(slices.Clone(m.bench.command), "subscribe",
			"--controller="+m.bench.controllers(), "--server-name="+controller.ServerName(meshNamespace),
			"--name="+subscriberName, "--namespace="+m.namespace, "--ledger="+m.ledger),
		Env: []string{"GOMAXPROCS=1", "LASTCALL_ROOTS=" + string(m.bench.ca.PEM())},
	})
	if err != nil {
		return err
	}
	m.watch(subscriberName, running)
	return nil
}

// listed tells of a pod that discovery is to know of, or no more.
func (m *meshed) listed(name, is string) {
	if m.handsOver() && m.ctx.Err() == nil {
		m.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Listed, Name: name, Attrs: map[string]string{"is": is}})
	}
}

// handOver ends the controllers one after the other, each of which comes again, and then both at once.
// While there is none an instance is deleted, which is replaced. All the time pods come and go that
// discovery hears of, and that are nobody's.
func (m *meshed) handOver(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	churning, enough := context.WithCancel(ctx)
	all.Go(func() error { return m.churn(churning) })
	all.Go(func() error {
		defer enough()
		for _, r := range m.bench.replicas {
			if err := m.succeed(ctx, 0, r); err != nil {
				return err
			}
		}
		orphans := make(chan struct{}) // closed when there is no controller
		all.Go(func() error {
			select {
			case <-orphans:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			x := host.Disrupter{Fleet: m.fleet}
			return x.Run(ctx, disrupt.DeleteEach(1))
		})
		if err := m.end(ctx, m.bench.replicas...); err != nil {
			return err
		}
		close(orphans)
		if err := disrupt.Pause(ctx, away); err != nil {
			return err
		}
		return errors.Join(m.begin(ctx, m.bench.replicas...), disrupt.Pause(ctx, settles))
	})
	return all.Wait()
}

// succeed ends controllers, and begins others in their places.
func (m *meshed) succeed(ctx context.Context, after time.Duration, some ...*replica) error {
	if err := m.end(ctx, some...); err != nil {
		return err
	}
	if err := disrupt.Pause(ctx, after); err != nil {
		return err
	}
	if err := m.begin(ctx, some...); err != nil {
		return err
	}
	return disrupt.Pause(ctx, settles)
}

// end has controllers end as a pod's deletion has them, and waits until they have.
func (m *meshed) end(ctx context.Context, some ...*replica) error {
	for _, r := range some {
		m.control(r, false)
		if err := r.running.Terminate(); err != nil {
			return fmt.Errorf("ending the controller at %s: %w", r.pod.Address(), err)
		}
	}
	for _, r := range some {
		select {
		case <-r.running.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// begin starts controllers, with the fault where it is one of theirs.
func (m *meshed) begin(ctx context.Context, some ...*replica) error {
	fault := spec.Fault("")
	if behaviour.ComponentOf(m.scenario.Fault) == controller.Component {
		fault = m.scenario.Fault
	}
	if err := m.bench.begin(ctx, fault, some...); err != nil {
		return err
	}
	for _, r := range some {
		m.control(r, true)
	}
	return nil
}

// control tells what becomes of a controller.
func (m *meshed) control(r *replica, up bool) {
	m.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Outage, Subject: "controller " + r.pod.Address(), Attrs: map[string]string{"up": fmt.Sprint(up)}})
}

// churn has pods come and go that are an address, and no more.
func (m *meshed) churn(ctx context.Context) error {
	var there []*corev1.Pod
	gone := func(pod *corev1.Pod) error {
		m.listed(pod.Name, timeline.ListedGone)
		return m.bench.drop(fileOf(pod))
	}
	for n := 0; ; n++ {
		ip, err := m.bench.network.Service()
		if err != nil {
			return err
		}
		pod := &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: m.namespace, Name: fmt.Sprintf("passing-%d", n), UID: types(fmt.Sprintf("passing-%d", n)),
				Annotations: map[string]string{meshapi.DataplaneAnnotation: "sidecar"},
			},
			Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: account},
		}
		if pod.Status, err = m.bench.running(ip.String()); err != nil {
			return err
		}
		if err := m.bench.put(fileOf(pod), pod); err != nil {
			return err
		}
		m.listed(pod.Name, timeline.ListedThere)
		there = append(there, pod)
		if len(there) > int(livesFor/comesEvery) {
			if err := gone(there[0]); err != nil {
				return err
			}
			there = there[1:]
		}
		if disrupt.Pause(ctx, comesEvery) != nil {
			for _, pod := range there {
				if err := gone(pod); err != nil {
					return err
				}
			}
			return nil
		}
	}
}
