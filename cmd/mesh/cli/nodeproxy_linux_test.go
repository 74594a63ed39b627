// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/issuer"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/packets"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/zds"
)

// patience bounds what is waited for. It costs nothing where all is well.
const patience = time.Minute

// appPort is where a pod's app listens, which says back what it hears.
const appPort = 8080

// world is a mesh with its controller, and what all its nodes share.
type world struct {
	t       *testing.T
	g       *gomega.WithT
	network *bench.Network
	dir     string
	ca      *pki.Authority
	tokens  ed25519.PrivateKey
	at      string // the controller's IP
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if err := bench.Lacks(bench.IPv4); err != nil {
		t.Skipf("skipped: %v", err)
	}
	dir, err := os.MkdirTemp("", "mesh") // a test's own folder may have a name that is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, g: gomega.NewWithT(t), dir: dir}
	if w.network, err = bench.New(bench.IPv4); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.network.Close() })
	w.keys()
	w.object("namespace", &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{meshapi.MeshLabel: "m"}},
	})
	pod := w.pod()
	w.at = pod.Addr().String()
	w.run(pod, "bench-controller", "--mesh=m", "--namespace=mesh", "--keys="+filepath.Join(dir, "keys"), "--objects="+filepath.Join(dir, "objects"),
		"--node-proxy=mesh/node-proxy", "--min-drain=0s", "--unready=0s")
	w.ready(net.JoinHostPort(w.at, strconv.Itoa(controller.HealthPort)))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// keys are the CA's, and that of tokens.
func (w *world) keys() {
	w.t.Helper()
	var err error
	w.ca, err = pki.New("mesh")
	w.must(err)
	pair, err := w.ca.Pair()
	w.must(err)
	public, private, err := ed25519.GenerateKey(nil)
	w.must(err)
	w.tokens = private
	der, err := x509.MarshalPKIXPublicKey(public)
	w.must(err)
	for _, name := range []string{"keys", "objects"} {
		w.must(os.Mkdir(filepath.Join(w.dir, name), 0o700))
	}
	for name, text := range map[string][]byte{
		caCertFile: pair.Cert, caKeyFile: pair.Key, tokenKeyFile: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}),
	} {
		w.must(os.WriteFile(filepath.Join(w.dir, "keys", name), text, 0o600))
	}
}

// object has the controller know of one.
func (w *world) object(name string, o any) {
	w.t.Helper()
	text, err := yaml.Marshal(o)
	w.must(err)
	path := filepath.Join(w.dir, "objects", name+".yaml")
	w.must(os.WriteFile(path+".new", text, 0o600))
	w.must(os.Rename(path+".new", path))
}

func (w *world) pod() *bench.Pod {
	w.t.Helper()
	p, err := w.network.Pod()
	w.must(err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// within does something in a pod.
func (w *world) within(p *bench.Pod, do func() error) {
	w.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- p.Within(do)
	}()
	w.must(<-done)
}

// program is one of the mesh's, in a pod.
type program struct {
	*exec.Cmd
	ended chan struct{}
	err   error
}

func (w *world) run(in *bench.Pod, args ...string) *program {
	w.t.Helper()
	p := &program{Cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.Env = append(os.Environ(), asMesh+"=1")
	p.Stderr = w.t.Output()
	w.within(in, p.Start)
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		_ = p.Process.Kill() // where it has not ended
		<-p.ended
	})
	return p
}

// ready waits until somebody says so.
func (w *world) ready(at string) {
	w.t.Helper()
	c := &http.Client{Transport: &http.Transport{DialContext: w.network.Dial, DisableKeepAlives: true}, Timeout: patience}
	w.g.Eventually(func() error {
		r, err := c.Get("http://" + at + "/readyz")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(r.Body)
			return errors.New(string(bytes.TrimSpace(b)))
		}
		return nil
	}).WithTimeout(patience).Should(gomega.Succeed())
}

// node is one with a pod, whose agent is the test.
type node struct {
	*world
	name  string
	agent *zds.Server
	app   *bench.Pod
	space *os.File
}

func (w *world) node(name string) *node {
	w.t.Helper()
	n := &node{world: w, name: name, app: w.pod(), agent: zds.NewServer(zds.ServerConfig{Log: log.New(w.t.Output(), name+": ", log.Lmicroseconds)})}
	l, err := packets.Listen(n.zds())
	w.must(err)
	served := make(chan error, 1)
	go func() { served <- n.agent.Serve(l) }()
	w.t.Cleanup(func() {
		_ = l.Close()
		n.agent.Close()
		if err := <-served; err != nil {
			w.t.Error(err)
		}
	})
	w.within(n.app, func() (err error) {
		n.space, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	w.t.Cleanup(func() { _ = n.space.Close() })
	w.must(redirect.Apply(n.space, redirect.Settings{}))
	// A listener that closes loses the handshakes that are under way, but where they may move.
	w.within(n.app, func() error { return os.WriteFile("/proc/sys/net/ipv4/tcp_migrate_req", []byte("1"), 0) })
	n.echo()
	return n
}

func (n *node) zds() string { return filepath.Join(n.dir, n.name) }

// echo is the pod's app.
func (n *node) echo() {
	n.t.Helper()
	var l net.Listener
	n.within(n.app, func() (err error) {
		l, err = net.Listen("tcp", n.addr())
		return err
	})
	n.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = fmt.Fprintln(c, c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func (n *node) addr() string { return net.JoinHostPort(n.app.Addr().String(), strconv.Itoa(appPort)) }

// known has the controller know of the node's pod: with an address or, as before its network stands,
// without one.
func (n *node) known(addressed bool) {
	n.t.Helper()
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "on-" + n.name, Annotations: map[string]string{meshapi.DataplaneAnnotation: meshapi.NodeDataplane},
		},
		Spec: corev1.PodSpec{NodeName: n.name, ServiceAccountName: "of-" + n.name},
	}
	if addressed {
		p.Status.PodIP = n.app.Addr().String()
	}
	n.object(p.Name, p)
}

// proxy starts a node proxy, and waits until it is ready.
func (n *node) proxy() *program {
	n.t.Helper()
	token, err := issuer.Token(n.tokens, "mesh", "node-proxy", n.name, time.Hour)
	n.must(err)
	file := filepath.Join(n.dir, n.name+".token")
	n.must(os.WriteFile(file, []byte(token), 0o600))
	pod := n.pod()
	p := n.run(pod, "node-proxy", "--zds="+n.zds(), "--node="+n.name, "--controller="+n.at, "--server-name="+controller.ServerName("mesh"),
		"--token="+file, "--roots="+string(n.ca.PEM()), "--pod-name=proxy", "--namespace=mesh", "--settings={deadline: 1m}")
	n.ready(net.JoinHostPort(pod.Addr().String(), strconv.Itoa(nodeproxy.HealthPort)))
	return p
}

func (n *node) enrol() {
	n.t.Helper()
	n.must(n.agent.Add(n.ctx(), zds.Workload{UID: "uid", Namespace: "n", Name: "on-" + n.name, ServiceAccount: "of-" + n.name}, n.space))
}

// dial has the node's pod connect to another's app, and returns whom that sees.
func (n *node) dial(to *node) (net.Conn, netip.Addr) {
	n.t.Helper()
	c, err := n.app.Dial(n.ctx(), "tcp", to.addr())
	n.must(err)
	n.t.Cleanup(func() { _ = c.Close() })
	n.must(c.SetDeadline(time.Now().Add(patience)))
	var text []byte
	for b := make([]byte, 1); ; {
		_, err := io.ReadFull(c, b)
		n.must(err)
		if b[0] == '\n' {
			break
		}
		text = append(text, b[0])
	}
	from, err := netip.ParseAddr(string(text))
	n.must(err)
	return c, from.Unmap()
}

func (n *node) talk(c net.Conn) {
	n.t.Helper()
	_, err := c.Write([]byte("hello"))
	n.must(err)
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		n.t.Fatalf("%q, %v", got, err)
	}
}

// From a pod of one node to a pod of another, by two node proxies that have certificates of these pods'
// identities; then one of the proxies is replaced, and then the pod ends.
func TestNodeProxy(t *testing.T) {
	w := newWorld(t)
	a, b := w.node("n1"), w.node("n2")
	a.known(false)
	b.known(true)
	a.proxy()
	first := b.proxy()
	a.enrol()
	b.enrol()
	// Its own pod is not known yet: it is held.
	time.AfterFunc(time.Second, func() { a.known(true) })
	begun := time.Now()
	long, from := a.dial(b)
	if held := time.Since(begun); from != a.app.Addr() || held < time.Second {
		t.Errorf("the app sees %v after %v, and the client is %v", from, held, a.app.Addr())
	}
	a.talk(long)

	b.proxy()
	w.must(first.Process.Signal(syscall.SIGTERM))
	next, _ := a.dial(b)
	a.talk(next)
	a.talk(long)
	w.must(long.(*net.TCPConn).CloseWrite())
	if rest, err := io.ReadAll(long); err != nil || len(rest) > 0 {
		t.Errorf("what ran when its proxy was told to go ends with %q, %v", rest, err)
	}
	// The tunnel that it ran in has said GOAWAY, whichever the other one runs in.
	w.must(next.Close())
	select {
	case <-first.ended:
		if first.err != nil {
			t.Errorf("the first proxy: %v", first.err)
		}
	case <-w.ctx().Done():
		t.Error("the first proxy stays")
	}

	last, _ := a.dial(b)
	a.talk(last)
	w.must(b.agent.Del(b.ctx(), "uid"))
	if _, err := io.ReadAll(last); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("what a pod's end cuts ends with %v", err)
	}
}

// What can't be read or is not there is bad input.
func TestNodeProxyUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"no agent":   {"node-proxy", "--node=n1"},
		"no node":    {"node-proxy", "--zds=x", "--node="},
		"settings":   {"node-proxy", "--zds=x", "--node=n1", "--settings={deadline: none}"},
		"no roots":   {"node-proxy", "--zds=x", "--node=n1", "--roots="},
		"controller": {"node-proxy", "--zds=x", "--node=n1", "--roots=" + string(authority(t).PEM()), "--controller=here"},
	} {
		var said bytes.Buffer
		if code := Run(args, Signals{}, &said); code != 2 {
			t.Errorf("%s: exit code %d: %s", name, code, &said)
		}
	}
}

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	ca, err := pki.New("mesh")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}
