// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/enrolment"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/packets"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/serve"
	"github.com/lastcall-dev/lastcall/fixtures/zds"
)

const (
	// patience bounds what is waited for. It costs nothing where all is well.
	patience = time.Minute
	// short is a bound that is waited for.
	short = 500 * time.Millisecond
)

// binary is the plugin, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cni")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, cni.Type), ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := binary(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// node is one with a runtime: libcni, and a chain of a plugin that notes who calls it and the mesh's.
type node struct {
	t       *testing.T
	dir     string
	runtime *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	store   enrolment.Store
	path    string // of the pod's namespace
	space   *os.File
}

// The first plugin of the chain has made an interface, it says.
const first = `#!/bin/sh
cat > /dev/null
echo "$CNI_COMMAND $CNI_CONTAINERID" >> %[1]s/calls
case $CNI_COMMAND in
ADD) cat %[1]s/result;;
VERSION) echo '{"cniVersion": "1.1.0", "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]}';;
esac
`

func newNode(t *testing.T, v string) *node {
	t.Helper()
	space := namespace(t)
	built, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	// A test's own folder may have a name that is too long for a socket.
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, store: enrolment.Store(dir + "/state"), space: space, path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), space.Fd())}
	_, ip, err := net.ParseCIDR("198.18.0.7/32")
	if err != nil {
		t.Fatal(err)
	}
	result, err := (&current.Result{
		CNIVersion: "1.1.0", Interfaces: []*current.Interface{{Name: "eth0", Sandbox: n.path}},
		IPs: []*current.IPConfig{{Interface: current.Int(0), Address: *ip}},
	}).GetAsVersion(v)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	n.write("result", string(text), 0o644)
	n.write("first", fmt.Sprintf(first, dir), 0o755)
	n.runtime = libcni.NewCNIConfigWithCacheDir([]string{dir, built}, filepath.Join(dir, "cache"), nil)
	n.configure(v, cni.Duration(patience), cni.Duration(short))
	return n
}

func (n *node) write(name, text string, mode os.FileMode) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), mode); err != nil {
		n.t.Fatal(err)
	}
}

// configure writes the conflist.
func (n *node) configure(v string, addWithin, delWithin cni.Duration) {
	n.t.Helper()
	list, err := libcni.ConfListFromBytes(fmt.Appendf(nil, `{"cniVersion": %q, "name": "net", "plugins": [
		{"type": "first"},
		{"type": %q, "capabilities": {%q: true}, "state": %q, "agents": %q, "ledger": %q, "addWithin": "%v", "delWithin": "%v"}
	]}`, v, cni.Type, cni.Annotations, string(n.store), n.dir, n.dir, time.Duration(addWithin), time.Duration(delWithin)))
	if err != nil {
		n.t.Fatal(err)
	}
	n.list = list
}

// pod is what the runtime says of one, which the webhook has annotated.
func (n *node) pod(container string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: container, NetNS: n.path, IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "ns"}, {"K8S_POD_NAME", "name"}, {"K8S_POD_UID", "uid-" + container}},
		CapabilityArgs: map[string]any{cni.Annotations: map[string]string{
			membership.DataplaneAnnotation: membership.NodeDataplane, membership.MeshLabel: "m",
		}},
	}
}

func (n *node) add(pod *libcni.RuntimeConf) (types.Result, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	return n.runtime.AddNetworkList(ctx, n.list, pod)
}

func (n *node) del(pod *libcni.RuntimeConf) error {
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	return n.runtime.DelNetworkList(ctx, n.list, pod)
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// calls are those of the first plugin, without VERSION.
func (n *node) calls() []string {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "calls"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	n.must(err)
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(b)), "\n"), func(line string) bool { return strings.HasPrefix(line, "VERSION") })
}

func (n *node) noted(want ...string) {
	n.t.Helper()
	all, err := n.store.All()
	n.must(err)
	var got []string
	for _, s := range all {
		got = append(got, s.ContainerID)
	}
	if !slices.Equal(got, want) {
		n.t.Errorf("noted are %q, want %q", got, want)
	}
}

// redirected says whether the rules stand.
func (n *node) redirected() bool {
	n.t.Helper()
	state, err := redirect.Show(n.space)
	n.must(err)
	return state.Redirects()
}

// namespace is a pod's, without an interface but lo.
func namespace(t *testing.T) *os.File {
	t.Helper()
	f, err := redirect.NewNamespace("netns")
	if err != nil {
		t.Skipf("skipped: it takes root: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// agent answers plugins, and notes what they ask for.
type agent struct {
	n     *node
	reply func(enrolment.Request) (enrolment.Reply, error)

	mu    sync.Mutex
	asked []string
	space os.FileInfo // what came beside the last Add
}

func (n *node) agent(reply func(enrolment.Request) (enrolment.Reply, error)) *agent {
	n.t.Helper()
	a := &agent{n: n, reply: reply}
	l := n.listen()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			all.Go(func() { a.serve(enrolment.NewConn(c)) })
		}
	})
	n.t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return a
}

func (n *node) listen() *net.UnixListener {
	n.t.Helper()
	socket, err := enrolment.Socket(n.dir, "m")
	n.must(err)
	n.must(os.MkdirAll(filepath.Dir(socket), 0o700))
	l, err := packets.Listen(socket)
	n.must(err)
	n.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (a *agent) serve(c enrolment.Conn) {
	defer c.Close()
	for {
		r, space, err := c.Next()
		if err != nil {
			return
		}
		a.mu.Lock()
		a.asked = append(a.asked, strings.TrimSpace(string(r.Command)+" "+r.Pod.ContainerID))
		if space != nil {
			a.space, _ = space.Stat()
			_ = space.Close()
		}
		a.mu.Unlock()
		var reply enrolment.Reply
		if a.reply != nil {
			reply, err = a.reply(r)
		}
		if c.Answer(reply, err) != nil {
			return
		}
	}
}

// was asserts what it was asked for since the last time.
func (a *agent) was(want ...string) {
	a.n.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.asked, want) {
		a.n.t.Errorf("asked for were %q, want %q", a.asked, want)
	}
	a.asked = nil
}

// versions are those that it claims.
func versions(t *testing.T) []string {
	t.Helper()
	dir, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	info, err := libcni.NewCNIConfig([]string{dir}, nil).GetVersionInfo(t.Context(), cni.Type)
	if err != nil {
		t.Fatal(err)
	}
	return info.SupportedVersions()
}

func TestVersions(t *testing.T) {
	want := []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
	if got := versions(t); !slices.Equal(got, want) {
		t.Fatalf("it claims %v, want %v", got, want)
	}
	for _, v := range want {
		t.Run(v, func(t *testing.T) {
			n := newNode(t, v)
			a := n.agent(func(r enrolment.Request) (enrolment.Reply, error) {
				if r.Command == enrolment.Written && !n.redirected() {
					t.Error("the rules do not stand when the plugin says so")
				}
				return enrolment.Reply{Redirect: &redirect.Settings{PassInbound: []uint16{7777}}}, nil
			})
			pod := n.pod("c1")
			got, err := n.add(pod)
			n.must(err)
			if result, err := current.NewResultFromResult(got); err != nil || got.Version() != v || len(result.IPs) != 1 || result.IPs[0].Address.String() != "198.18.0.7/32" {
				t.Errorf("the result of the chain is %v, %v", got, err)
			}
			a.was("add c1", "written")
			if want, err := n.space.Stat(); err != nil || !os.SameFile(a.space, want) {
				t.Errorf("the agent has another namespace than the pod's: %v", err)
			}
			state, err := n.store.Read("c1", "eth0")
			n.must(err)
			if fmt.Sprint(state) != "ns/name (uid-c1, container c1)" || fmt.Sprint(state.IPs) != "[198.18.0.7]" || state.Netns != n.path || state.Network != "net" || state.Mesh != "m" {
				t.Errorf("noted is %+v", state)
			}
			shown, err := redirect.Show(n.space)
			n.must(err)
			if !strings.Contains(shown.String(), "to ports [15008 7777]: pass") {
				t.Errorf("the rules are\n%v", shown)
			}
			n.must(redirect.Within(n.space, func() error {
				if on, err := os.ReadFile("/proc/sys/net/ipv4/tcp_migrate_req"); err == nil && string(on) != "1\n" {
					t.Errorf("tcp_migrate_req is %q", on)
				}
				return nil
			}))
			if later, err := version.GreaterThanOrEqualTo(v, "0.4.0"); err == nil && later {
				n.must(n.runtime.CheckNetworkList(t.Context(), n.list, pod))
				a.was("check c1")
			}
			n.must(n.runtime.GetStatusNetworkList(t.Context(), n.list))

			n.must(n.del(pod))
			a.was("del c1")
			n.noted()
			// Again, as the runtime does: without a namespace, and without what libcni had of the result.
			pod.NetNS, pod.CapabilityArgs = "", nil
			for range 2 {
				n.must(n.del(pod))
			}
			a.was()
			if got := n.calls(); !slices.Equal(got[len(got)-3:], []string{"DEL c1", "DEL c1", "DEL c1"}) {
				t.Errorf("the plugin before it was called for %q", got)
			}
		})
	}
}

// Whoever is not of the mesh has nothing to do with it, whatever state it is in.
func TestOthersPods(t *testing.T) {
	n := newNode(t, "1.1.0")
	for name, annotations := range map[string]map[string]string{
		"none":    nil,
		"sidecar": {membership.DataplaneAnnotation: "sidecar", membership.MeshLabel: "m"},
	} {
		pod := n.pod("c1")
		pod.CapabilityArgs = map[string]any{cni.Annotations: annotations}
		if annotations == nil {
			pod.CapabilityArgs = nil
		}
		got, err := n.add(pod)
		if err != nil || got.Version() != "1.1.0" {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		n.noted()
		if n.redirected() {
			t.Errorf("%s: it has rules", name)
		}
		n.must(n.runtime.CheckNetworkList(t.Context(), n.list, pod))
		n.must(n.del(pod))
	}
}

// A pod can't hang on an agent: not its end, and its begin fails in time.
func TestAgentAway(t *testing.T) {
	for name, there := range map[string]func(n *node){
		"dead": func(n *node) { // its socket has stayed
			_ = n.listen().Close()
		},
		"never there": func(*node) {},
		"stopped":     func(n *node) { n.listen() }, // the kernel accepts for it
		"mute": func(n *node) {
			l := n.listen()
			go func() {
				for {
					c, err := l.AcceptUnix()
					if err != nil {
						return
					}
					n.t.Cleanup(func() { _ = c.Close() })
				}
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "1.1.0")
			there(n)
			n.configure("1.1.0", cni.Duration(short), cni.Duration(short))
			pod := n.pod("c1")
			_, err := n.add(pod)
			if err == nil || !strings.Contains(err.Error(), "enrol ns/name (uid-c1, container c1)") || strings.Contains(err.Error(), "not found") {
				t.Errorf("ADD: %v", err)
			}
			n.noted()
			n.must(n.del(pod)) // as the runtime does then
			n.must(n.runtime.GetStatusNetworkList(t.Context(), n.list))
			n.must(n.store.Write(enrolment.State{Network: "net", ContainerID: "c2", Interface: "eth0", Mesh: "m", UID: "u"}))
			begun := time.Now()
			n.must(n.del(n.pod("c2")))
			if took := time.Since(begun); took < short || took > patience/2 {
				t.Errorf("DEL took %v, and has %v for the agent", took, short)
			}
			n.noted()
			if got := n.calls(); got[len(got)-1] != "DEL c2" {
				t.Errorf("the plugin before it was called for %q", got)
			}
		})
	}
}

// An agent that comes in time is asked.
func TestAgentComes(t *testing.T) {
	n := newNode(t, "1.1.0")
	n.configure("1.1.0", cni.Duration(patience), cni.Duration(patience))
	added := make(chan error, 1)
	go func() {
		_, err := n.add(n.pod("c1"))
		added <- err
	}()
	for {
		if all, err := n.store.All(); err == nil && len(all) == 1 {
			break // it has begun
		}
		n.must(serve.Pause(t.Context(), 5*time.Millisecond))
	}
	a := n.agent(nil)
	n.must(<-added)
	a.was("add c1", "written")
}

// An agent that goes in the middle has a successor, which is asked anew.
func TestAgentGoes(t *testing.T) {
	n := newNode(t, "1.1.0")
	n.configure("1.1.0", cni.Duration(patience), cni.Duration(patience))
	goes := func(do func() error) *agent {
		l, asked, done := n.listen(), make(chan struct{}), make(chan error, 1)
		go func() {
			c, err := l.AcceptUnix()
			if err != nil {
				t.Error(err)
				return
			}
			if _, space, err := enrolment.NewConn(c).Next(); err != nil {
				t.Error(err)
			} else if space != nil {
				_ = space.Close()
			}
			_ = l.Close()
			_ = c.Close()
			close(asked)
		}()
		go func() { done <- do() }()
		<-asked
		next := n.agent(nil)
		n.must(<-done)
		return next
	}
	goes(func() error { _, err := n.add(n.pod("c1")); return err }).was("add c1", "written")
	goes(func() error { return n.del(n.pod("c1")) }).was("del c1")
	n.noted()
}

// What the agent says reaches who reads the pod's events, but for two words.
func TestRefused(t *testing.T) {
	n := newNode(t, "1.1.0")
	a := n.agent(func(r enrolment.Request) (enrolment.Reply, error) {
		return enrolment.Reply{}, fmt.Errorf("%s: pod Not found, link not found", r.Command)
	})
	_, err := n.add(n.pod("c1"))
	if err == nil || !strings.Contains(err.Error(), "the agent says: add: pod absent, link absent") {
		t.Error(err)
	}
	a.was("add c1")
	n.noted()
	n.must(n.store.Write(enrolment.State{Network: "net", ContainerID: "c2", Interface: "eth0", Mesh: "m", UID: "u"}))
	n.must(n.del(n.pod("c2")))
	a.was("del c2")
	n.noted()
	// What nobody can read is no obstacle to a pod's end.
	n.write("state/c3@eth0.json", "{", 0o600)
	n.must(n.del(n.pod("c3")))
	n.noted()
	for _, pod := range []*libcni.RuntimeConf{
		{ContainerID: "c4", NetNS: n.path, IfName: "eth0", CapabilityArgs: n.pod("").CapabilityArgs}, // without K8S_POD_UID
		{ContainerID: "c4", NetNS: "/nowhere", IfName: "eth0", CapabilityArgs: n.pod("").CapabilityArgs, Args: n.pod("").Args},
		{ContainerID: "c4", NetNS: n.path, IfName: "eth0", Args: n.pod("").Args, CapabilityArgs: map[string]any{cni.Annotations: map[string]string{
			membership.DataplaneAnnotation: membership.NodeDataplane, membership.MeshLabel: "..",
		}}},
	} {
		if _, err := n.add(pod); err == nil {
			t.Errorf("%+v is added", pod)
		}
		n.noted()
	}
}

func TestCheck(t *testing.T) {
	n := newNode(t, "1.1.0")
	left := false
	n.agent(func(enrolment.Request) (enrolment.Reply, error) { return enrolment.Reply{Unenrolled: left}, nil })
	pod := n.pod("c1")
	_, err := n.add(pod)
	n.must(err)
	n.must(redirect.Withdraw(n.space))
	if err := n.runtime.CheckNetworkList(t.Context(), n.list, pod); err == nil || !strings.Contains(err.Error(), "nothing redirects") {
		t.Error(err)
	}
	left = true // it has left the mesh
	n.must(n.runtime.CheckNetworkList(t.Context(), n.list, pod))
	n.must(n.store.Remove("c1", "eth0"))
	if err := n.runtime.CheckNetworkList(t.Context(), n.list, pod); err == nil {
		t.Error("nothing is noted of it, and it is in order")
	}
}

// GC ends what is no more, and nothing else.
func TestGC(t *testing.T) {
	n := newNode(t, "1.1.0")
	a := n.agent(nil)
	for _, c := range []string{"c1", "c2"} {
		_, err := n.add(n.pod(c))
		n.must(err)
	}
	// Nor does libcni know these: one's DEL was cut off, the other is of another network.
	for c, network := range map[string]string{"c3": "net", "c4": "other"} {
		n.must(n.store.Write(enrolment.State{Network: network, ContainerID: c, Interface: "eth0", Mesh: "m", UID: c}))
	}
	a.was("add c1", "written", "add c2", "written")
	n.must(n.runtime.GCNetworkList(t.Context(), n.list, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}}}))
	n.noted("c1", "c4")
	a.was("del c2", "del c3")
	n.must(n.runtime.GCNetworkList(t.Context(), n.list, nil))
	n.noted("c4")
}

// STATUS is of the plugin itself.
func TestStatus(t *testing.T) {
	n := newNode(t, "1.1.0")
	n.must(n.runtime.GetStatusNetworkList(t.Context(), n.list))
	n.must(os.Remove(string(n.store)))
	n.write("state", "", 0o600) // no folder can be where a file is
	err := n.runtime.GetStatusNetworkList(t.Context(), n.list)
	var told *types.Error
	if !errors.As(err, &told) || told.Code != 50 {
		t.Errorf("%v", err)
	}
	_, err = n.add(n.pod("c1"))
	if err == nil {
		t.Error("a pod is added that nobody can note")
	}
	n.must(n.del(n.pod("c1")))
}

// The whole of a node's begin and end: runtime, plugin, agent and a proxy that listens in the pod.
func TestTogether(t *testing.T) {
	n := newNode(t, "1.1.0")
	n.configure("1.1.0", cni.Duration(patience), cni.Duration(patience))
	agent := nodeagent.New(nodeagent.Config{
		Mesh: "m", Agents: n.dir, ZDS: filepath.Join(n.dir, "zds"), Pods: n.store, Source: everybody{}, Absent: patience,
		Log: log.New(t.Output(), "agent: ", log.Lmicroseconds),
	})
	n.must(agent.Start(t.Context()))
	t.Cleanup(func() { agent.Drain("the test"); _ = agent.Wait() })
	proxy := zds.NewClient(zds.ClientConfig{Address: filepath.Join(n.dir, "zds"), Proxy: listening{}, Log: log.New(t.Output(), "proxy: ", log.Lmicroseconds)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); proxy.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	// What the pod dials outside of itself: the address is nobody's, and the proxy takes it.
	n.must(redirect.Within(n.space, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "far"}); err != nil {
			return err
		}
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(eth0, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(198, 18, 0, 7), Mask: net.CIDRMask(24, 32)}}); err != nil {
			return err
		}
		return netlink.LinkSetUp(eth0)
	}))
	dial := func() error {
		return redirect.Within(n.space, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", "198.18.0.9:80")
			if err == nil {
				_ = c.Close()
			}
			return err
		})
	}
	pod := n.pod("c1")
	_, err := n.add(pod)
	n.must(err)
	n.must(dial())
	n.must(n.runtime.CheckNetworkList(t.Context(), n.list, pod))
	begun := time.Now()
	n.must(n.del(pod))
	t.Logf("DEL of the chain took %v", time.Since(begun))
	n.noted()
	if err := dial(); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("the pod has ended, and who dials is told: %v", err)
	}
}

// everybody is in the mesh.
type everybody struct{}

func (everybody) Pod(_ context.Context, uid, _ string) (nodeagent.Pod, error) {
	return nodeagent.Pod{UID: uid, Namespace: "ns", Name: "name", ServiceAccount: "sa", Enrolled: true}, nil
}

func (everybody) Watch(ctx context.Context, _ func(nodeagent.Pod)) error { <-ctx.Done(); return nil }

func (everybody) Say(context.Context, nodeagent.Pod, bool) error { return nil }

// listening is what a proxy does in a pod at the least.
type listening struct{}

func (listening) Begin(ctx context.Context, _ zds.Workload, namespace *os.File) (zds.Served, error) {
	var l *redirect.Listener
	err := redirect.Within(namespace, func() (err error) {
		l, err = redirect.Listen(ctx, redirect.OutboundPort)
		return err
	})
	return ends{l}, err
}

func (listening) Synced() {}

type ends struct{ *redirect.Listener }

func (e ends) End(context.Context) error { return e.Close() }

// told are the ends of pods that the plugin has written down.
func (n *node) told() (pods []string) {
	n.t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "cni.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	n.must(err)
	for line := range strings.Lines(string(b)) {
		var r timeline.Record
		n.must(json.Unmarshal([]byte(line), &r))
		if took, err := time.ParseDuration(r.Event.Attrs["took"]); r.Event.Kind != timeline.CNIDel || err != nil || took <= 0 || r.Event.At > timeline.Monotonic() {
			n.t.Errorf("it wrote %q", line)
		}
		pods = append(pods, r.Event.Subject)
	}
	return pods
}

// The end of a pod is written down once, when the agent has done its part or has had its time; a pod that is none of
// the mesh's has none.
func TestTellsOfTheEnd(t *testing.T) {
	n := newNode(t, "1.1.0")
	ended := make(chan struct{})
	a := n.agent(func(r enrolment.Request) (enrolment.Reply, error) {
		if r.Command == enrolment.Del {
			if told := n.told(); len(told) > 0 {
				t.Errorf("told of %q while the agent is asked", told)
			}
			close(ended)
		}
		return enrolment.Reply{}, nil
	})
	pod, other := n.pod("c1"), n.pod("c2")
	other.CapabilityArgs = nil
	for _, p := range []*libcni.RuntimeConf{pod, other} {
		_, err := n.add(p)
		n.must(err)
	}
	for _, p := range []*libcni.RuntimeConf{pod, other, pod} {
		n.must(n.del(p))
	}
	<-ended
	if told := n.told(); !slices.Equal(told, []string{"uid-c1"}) {
		t.Errorf("it told of %q", told)
	}
	a.was("add c1", "written", "del c1")
}

// That an agent could not have peers told stands with the end of the pod, whose DEL succeeds.
func TestTellsOfTheUntold(t *testing.T) {
	n := newNode(t, "1.1.0")
	n.agent(func(r enrolment.Request) (enrolment.Reply, error) {
		if r.Command == enrolment.Del && r.Pod.ContainerID == "c1" {
			return enrolment.Reply{}, zds.ErrNoAck
		}
		return enrolment.Reply{}, nil
	})
	if why, err := cni.Untold(n.dir, "uid-c1"); why != "" || err != nil {
		t.Errorf("before there is a ledger: %q, %v", why, err)
	}
	for container, want := range map[string]string{"c1": zds.ErrNoAck.Error(), "c2": ""} {
		pod := n.pod(container)
		_, err := n.add(pod)
		n.must(err)
		n.must(n.del(pod))
		if why, err := cni.Untold(n.dir, "uid-"+container); !strings.HasSuffix(why, want) || (why == "") != (want == "") || err != nil {
			t.Errorf("%s: %q, %v, want %q", container, why, err, want)
		}
	}
}

// Under its fault the next plugin of the chain has been called when the agent is asked.
func TestEndsBehind(t *testing.T) {
	n := newNode(t, "1.1.0")
	asked := make(chan []string, 1)
	n.agent(func(r enrolment.Request) (enrolment.Reply, error) {
		if r.Command == enrolment.Del {
			asked <- n.calls()
		}
		return enrolment.Reply{}, nil
	})
	pod := n.pod("c1")
	pod.CapabilityArgs[cni.Annotations].(map[string]string)[membership.FaultAnnotation] = string(cni.EndsBehind)
	_, err := n.add(pod)
	n.must(err)
	n.must(n.del(pod))
	select {
	case calls := <-asked:
		if !slices.Equal(calls, []string{"ADD c1", "DEL c1"}) {
			t.Errorf("the other plugin's calls were %q", calls)
		}
	case <-time.After(patience):
		t.Error("the agent is never asked")
	}
}
