// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
)

// meshName is the end of the name of the mesh's namespace.
const meshName = "mesh"

// controllers is how many replicas the mesh's controller has.
const controllers = 2

// controllerDrain is how long one goes on serving after SIGTERM: longer than the longest P.
const controllerDrain = 10 * time.Second

// meshControl is the mesh's controller, which all recordings in the mesh share. It is put up when the
// first of them needs it.
type meshControl struct {
	mu sync.Mutex
	up bool
}

// meshed says whether the recording's pods are in the suite's mesh.
func (g *ground) meshed() bool { return g.system.Stands().Meshed }

// enmesh has the recording's namespace be one of the mesh, whose controller stands then.
func (g *ground) enmesh(ctx context.Context) error {
	g.scope.Labels = map[string]string{meshapi.MeshLabel: g.stage.cfg.Run}
	return g.stage.openMesh(ctx)
}

// openMesh puts the mesh's controller up, once.
func (s *Stage) openMesh(ctx context.Context) error {
	s.mesh.mu.Lock()
	defer s.mesh.mu.Unlock()
	if s.mesh.up {
		return nil
	}
	scope := s.scope(meshName)
	if err := scope.Open(ctx, s.cs, deploy.Restricted); err != nil {
		return err
	}
	svc, err := s.cs.CoreV1().Services(scope.Namespace).Create(ctx, controller.Service(scope.Namespace), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("the mesh controller's Service: %w", err)
	}
	objects, scoped, err := controller.Manifests(controller.Place{
		Namespace: scope.Namespace, Mesh: s.cfg.Run, Image: s.cfg.Image, Pull: deploy.PullPolicy(s.cfg.Image),
		Address: svc.Spec.ClusterIP, MinDrain: controllerDrain,
	})
	if err != nil {
		return err
	}
	what := deploy.System{Component: controller.Name, Objects: objects, Ended: len(objects) - 1, Scoped: scoped, Replicas: controllers}
	made, err := scope.Prepare(what)
	if err != nil {
		return err
	}
	if err := scope.Install(ctx, s.objects, what, made, s.scoped); err != nil {
		return err
	}
	if _, err := scope.Ready(ctx, s.cs, controller.Name, controllers, upBudget); err != nil {
		return fmt.Errorf("the mesh's controller: %w", err)
	}
	if err := s.trusted(ctx, controller.WebhookName(scope.Namespace)); err != nil {
		return err
	}
	s.mesh.up = true
	return nil
}

// trusted waits until the API server is told whom to trust as the webhook: until then it refuses
// every pod that the webhook is asked about.
func (s *Stage) trusted(ctx context.Context, webhook string) error {
	return disrupt.Await(ctx, upBudget, "the caBundle of the webhook "+webhook, func(ctx context.Context) (bool, string, error) {
		w, err := s.cs.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, webhook, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		for _, one := range w.Webhooks {
			if len(one.ClientConfig.CABundle) == 0 {
				return false, "the leader of the controller has not written it", nil
			}
		}
		return true, "", nil
	})
}

// injects waits until the API server reaches the webhook: the controller's replicas are ready before
// the nodes' service network knows of them, the API server's node among them. It asks by a pod that
// is tried and not made.
func (g *ground) injects(ctx context.Context) error {
	try := g.scope.ProbePod(deploy.Probe{Name: "try", Credentials: secretName})
	return disrupt.Await(ctx, serviceBudget, "the mesh's webhook to be reached", func(ctx context.Context) (bool, string, error) {
		made, err := g.stage.cs.CoreV1().Pods(g.scope.Namespace).Create(ctx, try, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInternalError(err) {
			return false, err.Error(), nil
		}
		if err == nil && made.Annotations[meshapi.DataplaneAnnotation] == "" {
			return false, "a pod comes up without a sidecar", nil
		}
		return err == nil, "", err
	})
}

// client is a pod of a client's in the mesh: it has a sidecar, which leaves its control channel alone.
func (g *ground) client(pod *corev1.Pod) *corev1.Pod {
	if g.meshed() {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, injector.SettingsAnnotation, sidecar.Settings{Inbound: []uint16{deploy.ControlPort}}.String())
	}
	return pod
}

// tunnels are the addresses at which the sidecars of pods take tunnels.
func tunnels(to []deploy.Instance) []string {
	out := make([]string, len(to))
	for i, t := range to {
		out[i] = net.JoinHostPort(t.IP, strconv.Itoa(redirect.TunnelPort))
	}
	return out
}
