// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/systems"
)

// meshName is the end of the name of the mesh's namespace.
const meshName = "mesh"

// nodeAgents is what makes the agents of node proxies, which are the suite's own whoever's these are.
const nodeAgents = "node-agent"

// controllers is how many replicas the mesh's controller has.
const controllers = 2

// controllerUnready is how long one goes on serving once it says that it is not ready.
const controllerUnready = 2 * time.Second

// standing is what all recordings in the mesh share. It is put up when the first of them needs it, once: what
// failed is not tried again for each recording.
type standing struct {
	mu    sync.Mutex
	tried bool
	err   error
}

func (s *standing) once(put func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		s.tried, s.err = true, put()
	}
	return s.err
}

// meshed says whether the recording's pods are in the suite's mesh.
func (g *ground) meshed() bool { return g.system.Meshed() }

// mesh is the ID of the mesh that the recording's namespace is in; "": of none.
func (g *ground) mesh() string {
	switch {
	case g.meshed():
		return g.stage.cfg.Run
	case g.system.Stands().Controls:
		return g.scope.Namespace
	}
	return ""
}

// enmesh has the recording's namespace be one of a mesh, whose controller stands then where it is not
// what is ended.
func (g *ground) enmesh(ctx context.Context) error {
	if id := g.mesh(); id != "" {
		g.scope.Labels = map[string]string{meshapi.MeshLabel: id}
	}
	if !g.meshed() {
		return nil
	}
	if err := g.stage.openMesh(ctx); err != nil {
		return err
	}
	if g.byNodes() {
		if err := g.stage.plugin.once(func() error { return g.stage.putPlugin(ctx) }); err != nil {
			return err
		}
		if err := g.stage.pluginReady(ctx); err != nil {
			return err
		}
	}
	return g.identify(ctx)
}

// byNodes says whether the recording's pods are served by their nodes' proxies.
func (g *ground) byNodes() bool { return g.system.Stands().Role == system.NodeProxy }

// proxies is what makes the node proxies that serve the recording's pods.
func (g *ground) proxies() disrupt.Workload {
	return disrupt.Workload{Kind: disrupt.DaemonSet, Name: g.system.Cluster.NodeProxy}
}

// leaveOut has the pods of a workload be none of the mesh's, whose webhook would put a sidecar into them.
func leaveOut(all []unstructured.Unstructured, w disrupt.Workload) error {
	for i, u := range all {
		if u.GetKind() != string(w.Kind) || u.GetName() != w.Name {
			continue
		}
		if err := unstructured.SetNestedField(all[i].Object, "false", "spec", "template", "metadata", "labels", injector.OutLabel); err != nil {
			return fmt.Errorf("the label %s of the pods of %s %s: %w", injector.OutLabel, w.Kind, w.Name, err)
		}
	}
	return nil
}

// putPlugin has the mesh's CNI plugin be in the chain of each node, as long as the run goes on.
func (s *Stage) putPlugin(ctx context.Context) error {
	scope := s.scope(deploy.PluginName)
	if err := scope.Open(ctx, s.cs, deploy.Privileged); err != nil {
		return err
	}
	return deploy.Create(ctx, s.cs, scope.PluginInstaller(s.ledger()))
}

// pluginReady waits until it is in the chain of each node. A node that was shut down for a recording before has lost it
// with its installer, and gets it back a moment after it is ready: a pod that starts there before is in no mesh.
func (s *Stage) pluginReady(ctx context.Context) error {
	scope := s.scope(deploy.PluginName)
	set := scope.PluginInstaller(s.ledger())
	nodes, err := s.cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, err = scope.DaemonsReady(ctx, s.cs, set.Name, deploy.PluginName, deploy.Daemons(set.Spec.Template.Spec, nodes.Items), upBudget)
	return err
}

// clientAccount is the service account that our own client of tunnels says that it has.
const clientAccount = "lastcall-probe"

// identified is who our own client of tunnels is, to the mesh's CA.
type identified struct {
	ca []byte
	pki.Pair
}

// identify gives our own client an identity of the mesh: it has no sidecar that would ask for one.
func (g *ground) identify(ctx context.Context) error {
	ca, err := controller.Authority(ctx, g.stage.cs, g.stage.scope(meshName).Namespace)
	if err != nil {
		return err
	}
	svc, err := g.stage.cs.CoreV1().Services(g.stage.scope(meshName).Namespace).Get(ctx, controller.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the address of the mesh's controller: %w", err)
	}
	g.controllerIP = svc.Spec.ClusterIP
	u, err := url.Parse(g.id(clientAccount).String())
	if err != nil {
		return err
	}
	pair, err := ca.Workload(u, identity.Validity)
	g.identity = identified{ca.PEM(), pair}
	return err
}

// id is the identity of a service account in the recording's namespace.
func (g *ground) id(account string) identity.ID {
	return identity.ID{TrustDomain: identity.TrustDomain, Namespace: g.scope.Namespace, ServiceAccount: account}
}

// own makes a stream one whose tunnels are the client's own.
func (g *ground) own(s *load.Stream) {
	host, _, _ := net.SplitHostPort(s.Addr) // we joined it
	s.CA, s.ServerName = string(g.identity.ca), g.id(podAccount).String()
	s.Tunnel = load.Tunnel{To: g.at(host, flow.HTTP1), Cert: string(g.identity.Cert), Key: string(g.identity.Key)}
}

// podAccount is the service account of pods whose manifest names none.
const podAccount = "default"

// openMesh puts the mesh's controller up.
func (s *Stage) openMesh(ctx context.Context) error {
	return s.mesh.once(func() error { return s.putMesh(ctx) })
}

func (s *Stage) putMesh(ctx context.Context) error {
	scope := s.scope(meshName)
	if err := scope.Open(ctx, s.cs, deploy.Restricted); err != nil {
		return err
	}
	sys, err := systems.Reference(system.Controller)
	if err != nil {
		return err
	}
	d := sys.Drain
	place := sys.InPod(system.Place{
		Name: sys.Metadata.Name, Namespace: scope.Namespace, ServerName: serverName, Image: s.cfg.Image, Mesh: s.cfg.Run,
		MinDrain: d.MinDrain.D(), Unready: controllerUnready, Timeout: d.Cut(), Grace: d.Grace.D(),
	})
	objects, ended, err := sys.RenderManifests(place)
	if err != nil {
		return err
	}
	scoped, err := sys.RenderScoped(place)
	if err != nil {
		return err
	}
	what := deploy.System{Component: controller.Name, Objects: objects, Ended: ended, Scoped: scoped, Replicas: controllers}
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
	return s.trusted(ctx, controller.WebhookName(scope.Namespace))
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
// the nodes' service network knows of them, the API server's node among them.
func (g *ground) injects(ctx context.Context) error {
	return disrupt.Await(ctx, serviceBudget, "the mesh's webhook to be reached", func(ctx context.Context) (bool, string, error) {
		result, why := g.try(ctx, injector.SidecarDataplane)
		return result == timeline.TriedInjected, strings.TrimSpace(result + " " + why), nil
	})
}

// try has the API server make a pod of the mesh, which a sidecar or its node's proxy is to serve, up to the point where it would be
// stored. The webhook is asked as it is for any other.
func (g *ground) try(ctx context.Context, dataplane string) (result, why string) {
	pod := g.scope.ProbePod(deploy.Probe{Name: "try", Credentials: secretName})
	metav1.SetMetaDataLabel(&pod.ObjectMeta, membership.DataplaneLabel, dataplane)
	made, err := g.stage.cs.CoreV1().Pods(g.scope.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err != nil:
		return timeline.TriedRefused, err.Error()
	case !injected(made, dataplane):
		return timeline.TriedBare, ""
	}
	return timeline.TriedInjected, ""
}

// injected says whether a pod is in the mesh: whether it has a sidecar, for which the annotation is only somebody's word; or that
// annotation, where a node's plugin goes by it.
func injected(pod *corev1.Pod, dataplane string) bool {
	if dataplane == membership.NodeDataplane {
		return pod.Annotations[meshapi.DataplaneAnnotation] == dataplane
	}
	is := func(c corev1.Container) bool { return c.Name == injector.SidecarName }
	return slices.ContainsFunc(pod.Spec.InitContainers, is) || slices.ContainsFunc(pod.Spec.Containers, is)
}

// tryEvery is how often pods are tried while a controller is ended.
const tryEvery = 50 * time.Millisecond

// tries tells what becomes of pods that are tried, one each tryEvery however long the ones before
// take, until the ground goes: of each data path in turn.
func (g *ground) tries() {
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	of := []string{injector.SidecarDataplane, membership.NodeDataplane}
	for n := 0; ; n++ {
		dataplane := of[n%len(of)]
		select {
		case <-tick.C:
		case <-g.ctx.Done():
			return
		}
		g.tasks.Go(func() {
			began := timeline.Monotonic()
			result, why := g.try(g.ctx, dataplane)
			if g.ctx.Err() != nil {
				return
			}
			attrs := map[string]string{"result": result, "dataplane": dataplane}
			if why != "" {
				attrs["why"] = why
			}
			g.sink.Emit(timeline.Record{Event: &timeline.Event{
				At: began, Err: timeline.Monotonic() - began, Source: "runner", Kind: timeline.PodTried, Attrs: attrs,
			}}, 0)
		})
	}
}

// control follows a controller that is ended: who its certificate is signed by, and pods that it is
// asked about, where somebody judges these.
func (g *ground) control(ctx context.Context) error {
	secret, err := g.stage.cs.CoreV1().Secrets(g.scope.Namespace).Get(ctx, controller.SecretName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the mesh's CA: %w", err)
	}
	g.subject.ca = string(secret.Data[corev1.TLSCertKey])
	if err := g.stage.trusted(ctx, controller.WebhookName(g.scope.Namespace)); err != nil {
		return err
	}
	if err := g.injects(ctx); err != nil {
		return err
	}
	if g.scenario.Takes(assertions.Tried) {
		g.tasks.Go(g.tries)
	}
	return nil
}

// client is a pod of a client's. In the mesh it has a sidecar, which leaves its control channel alone,
// and the tunnels that it opens itself; who asks a controller that is ended has none.
func (g *ground) client(pod *corev1.Pod) *corev1.Pod {
	switch {
	case g.system.Stands().Controls:
		metav1.SetMetaDataLabel(&pod.ObjectMeta, injector.OutLabel, "false")
	case g.meshed():
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, injector.SettingsAnnotation, sidecar.ForClients(deploy.ControlPort, g.scenario.Fault).String())
		if g.byNodes() {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, membership.DataplaneLabel, membership.NodeDataplane)
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, membership.AgentAnnotation, g.scope.Namespace)
		}
	}
	return pod
}

// tunnels are the addresses at which the sidecars of pods take tunnels: those to a pod are at the address
// of the family that its Service has.
func tunnels(to []deploy.Instance) []string {
	var out []string
	for _, t := range to {
		for _, ip := range t.IPs {
			out = append(out, net.JoinHostPort(ip, strconv.Itoa(redirect.TunnelPort)))
		}
	}
	return out
}
