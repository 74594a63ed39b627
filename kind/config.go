// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/lastcall-dev/lastcall/kind/nodeimage"
)

// Defaults of Config.
const (
	DefaultKubernetes = "1.34"
	DefaultNodes      = 3
	DefaultKubeProxy  = IPTables
)

// IP families of Config.
const (
	IPv4 = "ipv4"
	IPv6 = "ipv6"
	Dual = "dual"
)

// kube-proxy modes of Config, as kube-proxy itself calls them.
const (
	IPTables = "iptables"
	NFTables = "nftables"
	IPVS     = "ipvs"
)

// Config says what cluster is wanted.
type Config struct {
	// Name is 1 to 40 letters, digits and hyphens. Required.
	Name string
	// Kubernetes is "1.34", or with its patch release. Default: what Image
	// holds, or DefaultKubernetes.
	Kubernetes string
	// Nodes is 1 to 9: one control plane, the others workers. Default: 3.
	Nodes int
	// Image is a node image that is used instead of the one for Kubernetes.
	// If both are set they must agree.
	Image string
	// IPFamily is IPv4, IPv6 or Dual. Default: Dual if the host has IPv6, else
	// IPv4.
	IPFamily string
	// KubeProxy is IPTables, NFTables or, where the kernel has it, IPVS.
	// Default: IPTables.
	KubeProxy string
	// Kubeconfig is a file that does not exist yet. Default: one in our own
	// state folder. Never the user's own.
	Kubeconfig string
	// NodeImageCache keeps what a node image is built of. Default: nodeimage's.
	NodeImageCache string
	// Progress takes a line for each thing that begins or ends; may be nil.
	Progress func(string)
}

const (
	// prefix is what the name of everything of ours begins with.
	prefix = "lastcall-"
	// maxName keeps "lastcall-NAME-control-plane" within a host name's 63.
	maxName  = 40
	maxNodes = 9
)

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// withDefaults fills in what needs no look at the machine.
func (c Config) withDefaults() Config {
	if c.Nodes == 0 {
		c.Nodes = DefaultNodes
	}
	if c.Kubernetes == "" && c.Image == "" {
		c.Kubernetes = DefaultKubernetes
	}
	if c.KubeProxy == "" {
		c.KubeProxy = DefaultKubeProxy
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

// Check refuses what Up would refuse without a look at the container engine and
// at what stands already. Errors are one line, and say what there is.
func (c Config) Check() error {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return err
	}
	if c.KubeProxy == IPVS {
		return kernelHasIPVS(os.DirFS("/"))
	}
	return nil
}

// check refuses what is wrong whatever the machine looks like.
func (c Config) check() error {
	if err := checkName(c.Name); err != nil {
		return err
	}
	if c.Nodes < 1 || c.Nodes > maxNodes {
		return fmt.Errorf("%d nodes: 1 to %d are possible", c.Nodes, maxNodes)
	}
	if c.Kubernetes != "" && c.Image == "" {
		if _, err := sources(c.Kubernetes); err != nil {
			return err
		}
	}
	if c.Kubernetes != "" && !kubernetesVersion.MatchString(c.Kubernetes) {
		return fmt.Errorf("version %q of Kubernetes: write it like 1.34 or 1.34.4", c.Kubernetes)
	}
	if !slices.Contains([]string{"", IPv4, IPv6, Dual}, c.IPFamily) {
		return fmt.Errorf("IP family %q: %s, %s and %s are possible", c.IPFamily, IPv4, IPv6, Dual)
	}
	if !slices.Contains([]string{IPTables, NFTables, IPVS}, c.KubeProxy) {
		return fmt.Errorf("kube-proxy mode %q: %s, %s and %s are possible", c.KubeProxy, IPTables, NFTables, IPVS)
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a cluster needs a name")
	case len(name) > maxName:
		return fmt.Errorf("cluster name %q is %d characters long: %d are possible", name, len(name), maxName)
	case !validName.MatchString(name):
		return fmt.Errorf("cluster name %q: small letters, digits and hyphens are possible, a hyphen neither first nor last", name)
	case strings.HasPrefix(name, prefix):
		return fmt.Errorf("cluster name %q: leave %q out, it is put in front of every name", name, prefix)
	}
	return nil
}

// checkKubeconfig refuses a file that is the user's own, or anyone's.
func checkKubeconfig(path string, environ func(string) string) error {
	if path == "" {
		return nil
	}
	own := filepath.SplitList(environ("KUBECONFIG"))
	if home := environ("HOME"); home != "" {
		own = append(own, filepath.Join(home, ".kube", "config"))
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	if slices.Contains(own, absolute) || slices.Contains(own, path) {
		return fmt.Errorf("kubeconfig %s is your own: choose another file, or none to get one of ours", path)
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("kubeconfig %s exists: choose another file, or none to get one of ours", path)
	}
	return nil
}

var kubernetesVersion = regexp.MustCompile(`^v?1\.\d+(\.\d+)?$`)

// sameVersion tells whether what was wanted ("1.34", "v1.34.4") is what is there
// ("v1.34.4").
func sameVersion(wanted, is string) bool {
	wanted, is = strings.TrimPrefix(wanted, "v"), strings.TrimPrefix(is, "v")
	return wanted == is || strings.Count(wanted, ".") == 1 && strings.HasPrefix(is, wanted+".")
}

// kindest are the node images that kind v0.33.0's release notes name, by the
// version in them. Only a digest names an image that was built for a kind
// release: tags move.
var kindest = map[string]string{
	"v1.34.11": "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d",
	"v1.35.8":  "kindest/node:v1.35.8@sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0",
	"v1.36.4":  "kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed",
	"v1.37.0":  "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
}

// imageSources are the places where a Kubernetes version can come from.
type imageSources struct {
	registry string              // reference by digest; "" if kind has none
	release  string              // the version in it, "v1.34.11"
	built    *nodeimage.Versions // nil if we can't build it
}

// sources looks a version up, and lists what there is if it is unknown.
func sources(kubernetes string) (imageSources, error) {
	var found imageSources
	known := []string{}
	for version, reference := range kindest {
		known = append(known, strings.TrimPrefix(version, "v"))
		if sameVersion(kubernetes, version) {
			found.registry, found.release = reference, version
		}
	}
	versions, err := nodeimage.Resolve(kubernetes)
	if err == nil {
		found.built = &versions
	}
	if found.registry == "" && found.built == nil {
		known = append(known, nodeimage.Supported()...)
		slices.Sort(known)
		return found, fmt.Errorf("version %q of Kubernetes is not known here: there are %s", kubernetes, strings.Join(known, ", "))
	}
	return found, nil
}

// host is what of the machine a cluster's configuration depends on.
type host struct {
	cgroupV1 bool
	// noResource: the bounding set lacks CAP_SYS_RESOURCE, and with it the
	// right to lower oom_score_adj.
	noResource bool
}

// shutdownGraceCritical is the part of nodeimage.ShutdownGrace that is kept for
// critical pods, which the kubelet ends last: 25 s are left for all others.
const shutdownGraceCritical = 15 * time.Second

// render makes kind's configuration.
func render(r record, host host) *v1alpha4.Cluster {
	cluster := &v1alpha4.Cluster{
		TypeMeta: v1alpha4.TypeMeta{Kind: "Cluster", APIVersion: "kind.x-k8s.io/v1alpha4"},
		Networking: v1alpha4.Networking{
			IPFamily:      v1alpha4.ClusterIPFamily(r.IPFamily),
			PodSubnet:     joinPrefixes(r.Ranges.Pods),
			ServiceSubnet: joinPrefixes(r.Ranges.Services),
			KubeProxyMode: v1alpha4.ProxyMode(r.KubeProxy),
		},
	}
	for i := range r.Nodes {
		role := v1alpha4.WorkerRole
		if i == 0 {
			role = v1alpha4.ControlPlaneRole
		}
		cluster.Nodes = append(cluster.Nodes, v1alpha4.Node{Role: role, Image: r.Image})
	}
	// A kubelet that finds no logind, as in kindest/node, logs that and goes on
	// without ("The shutdown manager is not critical for kubelet",
	// pkg/kubelet/kubelet.go of v1.34.4 to v1.37.2).
	cluster.KubeadmConfigPatches = append(cluster.KubeadmConfigPatches, fmt.Sprintf(
		"kind: KubeletConfiguration\nshutdownGracePeriod: %s\nshutdownGracePeriodCriticalPods: %s\n", nodeimage.ShutdownGrace, shutdownGraceCritical))
	if host.cgroupV1 {
		// Since 1.35 the kubelet refuses to start on cgroup v1 unless told
		// (KEP-5573); 1.34 warns.
		cluster.KubeadmConfigPatches = append(cluster.KubeadmConfigPatches,
			"kind: KubeletConfiguration\nfailCgroupV1: false\n")
	}
	if host.noResource {
		// Else every pod fails with "can't get final child's PID from pipe":
		// lowering oom_score_adj is refused. One patch for each version of
		// containerd's configuration; kind takes the one that fits.
		cluster.ContainerdConfigPatches = append(cluster.ContainerdConfigPatches,
			"version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  restrict_oom_score_adj = true\n",
			"version = 3\n[plugins.\"io.containerd.cri.v1.runtime\"]\n  restrict_oom_score_adj = true\n")
	}
	return cluster
}

func joinPrefixes(list []netip.Prefix) string {
	texts := make([]string, len(list))
	for i, prefix := range list {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}
