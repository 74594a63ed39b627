// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/health"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/issuer"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The names of what stands on the bench beside the recordings.
const (
	meshID        = "bench"
	meshNamespace = "lastcall-mesh"
	node          = "host"
)

// account is the service account of all pods, as of those that name none.
const account = "default"

// tokensLast is how long a token is good: longer than any run.
const tokensLast = 24 * time.Hour

// controllerBudget is how long the mesh's controller may take to be ready.
const controllerBudget = time.Minute

// The times of the controllers' end: whoever watches them here does so by their streams.
const (
	controllerDrain   = 2 * time.Second
	controllerUnready = time.Second
)

// meshBench is the suite's mesh on this host, which all recordings in it share: a network of
// namespaces, and the mesh's controller in one of them. What a cluster does of it the stage does:
// it injects into pods what the webhook does, signs their tokens as an API server does, and writes
// down what there is for discovery to read.
type meshBench struct {
	network *bench.Network
	objects string   // the folder that discovery reads
	command []string // of the mesh's programs
	ca      *pki.Authority
	tokens  ed25519.PrivateKey
	inject  injector.Injector

	keys     string // the folder of the CA's
	replicas []*replica
}

// replica is one of the mesh's controllers.
type replica struct {
	pod     *host.Pod
	running *host.Container
}

// openBench puts so many controllers up. dir is for what they need, logs for what they write.
func (s *Stage) openBench(ctx context.Context, dir, logs string, controllers int) (_ *meshBench, err error) {
	b := &meshBench{objects: filepath.Join(dir, "objects"), keys: filepath.Join(dir, "keys"), command: s.cfg.Mesh}
	for _, d := range []string{b.objects, b.keys, logs} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("a folder for the mesh: %w", err)
		}
	}
	if b.ca, err = pki.New("lastcall mesh " + meshID); err != nil {
		return nil, err
	}
	if err := b.writeKeys(b.keys); err != nil {
		return nil, err
	}
	if b.network, err = bench.New(s.cfg.Pods); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if by := s.cfg.TunnelDelay; by > 0 {
		if err := b.network.Delay(by); err != nil {
			return nil, err
		}
	}
	for n := range controllers {
		name := controller.Name
		if n > 0 {
			name += "-" + strconv.Itoa(n)
		}
		pod, err := host.OpenPod(b.network, 0, name, filepath.Join(dir, name), logs)
		if err != nil {
			return nil, err
		}
		b.replicas = append(b.replicas, &replica{pod: pod})
	}
	b.inject = injector.Injector{
		Mesh: meshID, Image: "none", Pull: corev1.PullNever, Controller: b.controllers(),
		ServerName: controller.ServerName(meshNamespace), Roots: b.ca.PEM,
	}
	return b, b.begin(ctx, "", b.replicas...)
}

// controllers are the controllers' addresses, as the mesh's programs take them.
func (b *meshBench) controllers() string {
	out := make([]string, len(b.replicas))
	for i, r := range b.replicas {
		out[i] = r.pod.Address()
	}
	return strings.Join(out, ",")
}

// begin starts controllers, with a fault or without, and waits until they serve.
func (b *meshBench) begin(ctx context.Context, fault spec.Fault, some ...*replica) (err error) {
	command := append(slices.Clone(b.command), "bench-controller", "--mesh="+meshID, "--namespace="+meshNamespace, "--keys="+b.keys, "--node-proxy="+meshNamespace+"/"+proxyName, "--objects="+b.objects, "--fault="+string(fault),
		"--min-drain="+controllerDrain.String(), "--unready="+controllerUnready.String())
	for _, r := range some {
		if r.running, err = r.pod.Run(controller.Name, system.Process{Command: command, Env: []string{"GOMAXPROCS=1", "GOGC=400"}}); err != nil {
			return err
		}
	}
	for _, r := range some {
		if err := b.awaitController(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (b *meshBench) awaitController(ctx context.Context, r *replica) error {
	client := host.Client(b.network)
	defer client.CloseIdleConnections()
	ready := "http://" + net.JoinHostPort(r.pod.Address(), strconv.Itoa(controller.HealthPort)) + "/readyz"
	return disrupt.Await(ctx, controllerBudget, "the mesh's controller", func(ctx context.Context) (bool, string, error) {
		select {
		case <-r.running.Done():
			return false, "", disrupt.Final(r.running.Ended())
		default:
			return true, "", health.Look(ctx, client, ready)
		}
	})
}

// writeKeys writes those of the CA, and by which it checks tokens.
func (b *meshBench) writeKeys(dir string) error {
	pair, err := b.ca.Pair()
	if err != nil {
		return err
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("making the key of tokens: %w", err)
	}
	b.tokens = private
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return fmt.Errorf("encoding the key of tokens: %w", err)
	}
	return system.WriteFiles(dir, map[string]string{
		"ca.crt": string(pair.Cert), "ca.key": string(pair.Key),
		"tokens.pub": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	}, 0o600)
}

// put has discovery know of objects, by the name of a file.
func (b *meshBench) put(name string, objects ...runtime.Object) error {
	var text bytes.Buffer
	for _, o := range objects {
		one, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("telling discovery of %s: %w", name, err)
		}
		text.WriteString("---\n")
		text.Write(one)
	}
	// What begins with a dot nobody reads.
	path, begun := filepath.Join(b.objects, name+".yaml"), filepath.Join(b.objects, "."+name)
	if err := errors.Join(os.WriteFile(begun, text.Bytes(), 0o600), os.Rename(begun, path)); err != nil {
		return fmt.Errorf("telling discovery of %s: %w", name, err)
	}
	return nil
}

// drop has discovery forget them.
func (b *meshBench) drop(name string) error {
	err := os.Remove(filepath.Join(b.objects, name+".yaml"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// namespace is one whose pods are in the mesh.
func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{meshapi.MeshLabel: meshID}},
	}
}

// admit makes a pod of a template as the API server has it then: on a node, with its data path, and an
// address.
func (b *meshBench) admit(namespace, on, name, uid, ip string, template corev1.PodTemplateSpec) (_ *corev1.Pod, err error) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.UID = namespace, name, types(uid)
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = on, account
	if err := b.inject.Inject(pod); err != nil {
		return nil, err
	}
	pod.Status, err = b.running(ip)
	return pod, err
}

// running is the status of a pod at an address.
func (b *meshBench) running(ip string) (corev1.PodStatus, error) {
	s := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip}
	all, err := b.addresses(ip)
	for _, a := range all {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: a})
	}
	for _, a := range b.network.Stack().Gateways() {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: a.String()})
	}
	return s, err
}

// addresses are those of the pod or the Service that has one of them: that first.
func (b *meshBench) addresses(first string) ([]string, error) {
	a, err := netip.ParseAddr(first)
	if err != nil {
		return nil, fmt.Errorf("the address of a pod or a Service: %w", err)
	}
	var out []string
	for _, one := range b.network.Stack().All(a) {
		out = append(out, one.String())
	}
	return out, nil
}

// beside are the containers of a pod that the mesh put there, as processes.
func (b *meshBench) beside(pod *corev1.Pod) (out host.Beside, err error) {
	for _, c := range pod.Spec.InitContainers {
		switch c.Name {
		case injector.RedirectName:
			out.Init = append(out.Init, b.process(pod, c))
		case injector.SidecarName:
			out.Native = true
			out.Sidecar, err = b.sidecar(pod, c)
		}
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == injector.SidecarName {
			out.Sidecar, err = b.sidecar(pod, c)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == injector.SidecarName && c.Lifecycle != nil {
			out.PreStop.Command = append(slices.Clone(b.command), c.Lifecycle.PreStop.Exec.Command[1:]...)
		}
	}
	out.Name, out.Port, out.Path = injector.SidecarName, injector.HealthPort, "/readyz"
	return out, err
}

// sidecar is that container, with a token of its own: the file is in the folder that it runs in, and
// of a flag that is there twice the last one counts.
func (b *meshBench) sidecar(pod *corev1.Pod, c corev1.Container) (system.Process, error) {
	const file = "token"
	token, err := issuer.Token(b.tokens, pod.Namespace, pod.Spec.ServiceAccountName, pod.Spec.NodeName, tokensLast)
	p := b.process(pod, c)
	p.Command = append(p.Command, "--token="+file)
	p.Files = map[string]string{file: token}
	return p, err
}

// process is a container of the mesh's image.
func (b *meshBench) process(pod *corev1.Pod, c corev1.Container) system.Process {
	p := system.Process{Command: append(slices.Clone(b.command), c.Args...)}
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = downward(pod, e.ValueFrom.FieldRef.FieldPath)
		}
		p.Env = append(p.Env, e.Name+"="+value)
	}
	return p
}

// downward is a field of a pod, as its containers are told it.
func downward(pod *corev1.Pod, path string) string {
	switch path {
	case "metadata.uid":
		return string(pod.UID)
	case "metadata.name":
		return pod.Name
	case "metadata.namespace":
		return pod.Namespace
	case "spec.nodeName":
		return pod.Spec.NodeName
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName
	case "status.hostIPs":
		var all []string
		for _, ip := range pod.Status.HostIPs {
			all = append(all, ip.IP)
		}
		return strings.Join(all, ",")
	default:
		return ""
	}
}

// close ends the controllers, and lets go of the network.
func (b *meshBench) close() error {
	var errs []error
	for _, r := range b.replicas {
		errs = append(errs, r.pod.Close())
	}
	return errors.Join(append(errs, b.network.Close())...)
}
