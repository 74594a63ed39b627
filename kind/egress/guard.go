// SPDX-License-Identifier: Apache-2.0

// Package egress keeps the traffic of a cluster on its machine.
//
// A packet for the address of a pod that is gone has no route in its node and
// would follow the default route out of the host. Two walls stand in its way:
// in every node an unreachable route for the pod ranges, and on the host an
// nftables table of our own with reject rules. The table's place among other
// tables does not matter: what one base chain rejects, no other one can accept
// again.
package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/lastcall-dev/lastcall/kind/docker"
)

// ErrRights: the host's packet filter can't be changed by this user, or not on
// this system.
var ErrRights = errors.New("the egress guard needs the host's nftables: run as root on Linux")

// Config says what one guard holds back.
type Config struct {
	Name     string         // of the nftables table and of the docker network, "lastcall-x"
	Bridge   string         // the host's interface of the cluster's network
	Pods     []netip.Prefix // pod ranges, IPv4 and IPv6
	Services []netip.Prefix // service ranges, IPv4 and IPv6
}

// Guard is a wall that stands.
type Guard struct {
	config Config
}

// Config returns what the guard was made of.
func (g *Guard) Config() Config { return g.config }

// Counters are packets that the host rejected since the guard was installed.
type Counters struct {
	PodsIPv4     uint64 // forwarded, for a pod's address
	PodsIPv6     uint64
	ServicesIPv4 uint64 // forwarded, for a service's address
	ServicesIPv6 uint64
	// SentIPv4 and SentIPv6 were sent by the host itself, for a pod's or a
	// service's address. The host's answers to what it rejected are among them,
	// where a pod's own address was the sender: the host has no route to it.
	SentIPv4 uint64
	SentIPv6 uint64
	Leaving  uint64 // forwarded, from the cluster's bridge for anywhere else
}

// Pods is the counter of one address's family.
func (c Counters) Pods(address netip.Addr) uint64 {
	if address.Unmap().Is4() {
		return c.PodsIPv4
	}
	return c.PodsIPv6
}

// Routes puts an unreachable route for each pod range into each node, given by
// the name of its container. The live pods' own routes and those to the other
// nodes are more specific, and win. There is none for the service ranges: the
// route lookup comes before kube-proxy's translation.
//
// Such a route's own answer comes at most once a second for each peer, and the
// limit (net.ipv4.route.error_cost) is the host's: load dials hundreds of times
// a second, and the others would hang until their time is out. So each node
// also rejects what the routes would, by a rule whose answers are not limited.
func (g *Guard) Routes(ctx context.Context, nodes []string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range nodes {
		group.Go(func() error {
			if _, err := docker.Output(ctx, append([]string{"exec", "--privileged", node, "sysctl", "-q", "-w"}, unlimited(g.config.Pods)...)...); err != nil {
				return fmt.Errorf("answers for unreachable routes in node %s: %w", node, err)
			}
			if _, err := docker.Pipe(ctx, strings.NewReader(rejectDead(g.config.Pods)), "exec", "--interactive", "--privileged", node, "nft", "-f", "-"); err != nil {
				return fmt.Errorf("the rule for dead pods' addresses in node %s: %w", node, err)
			}
			for _, prefix := range g.config.Pods {
				if _, err := docker.Output(ctx, "exec", "--privileged", node, "ip", family(prefix.Addr()), "route", "replace", "unreachable", prefix.String()); err != nil {
					return fmt.Errorf("unreachable route in node %s: %w", node, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// unlimited are the settings of a node that let it answer every packet for an
// unreachable address. A kernel without IPv6 has none for it.
func unlimited(pods []netip.Prefix) []string {
	settings := []string{"net.ipv4.icmp_ratelimit=0"}
	if slices.ContainsFunc(pods, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		settings = append(settings, "net.ipv6.icmp.ratelimit=0")
	}
	return settings
}

// rejectDead is the nftables script of a node: it rejects what comes for a
// pod's address that nobody has, after kube-proxy's translation (priority -100)
// and before the route lookup. The node's own addresses have no way out
// either, and are let through first. Applied again, it replaces itself.
func rejectDead(pods []netip.Prefix) string {
	var w strings.Builder
	w.WriteString("table inet lastcall {\n}\ndelete table inet lastcall\ntable inet lastcall {\n\tchain dead {\n")
	w.WriteString("\t\ttype filter hook prerouting priority -90; policy accept;\n\t\tfib daddr type local accept\n")
	for _, p := range pods {
		protocol := "ip"
		if p.Addr().Is6() {
			protocol = "ip6"
		}
		fmt.Fprintf(&w, "\t\t%s daddr %s fib daddr oif missing counter reject with icmpx type host-unreachable\n", protocol, p)
	}
	w.WriteString("\t}\n}\n")
	return w.String()
}

func family(address netip.Addr) string {
	if address.Is4() {
		return "-4"
	}
	return "-6"
}

// Proof is what became of dials that the host's own rule had to stop.
type Proof struct {
	Dials []Dial
}

// Dial is one connection attempt from a container on the cluster's network that
// has no route to any pod.
type Dial struct {
	Address netip.Addr
	Error   string // what the dialler got, "No route to host"
	Before  uint64 // the counter of the address's family
	After   uint64
	// NoWayOut: this host has no route at all by which such a packet could
	// leave, as is usual for IPv6 in CI. It never gets as far as the rule.
	NoWayOut bool
}

// stopped tells whether the dial proves what it should.
func (d Dial) stopped() bool {
	if d.NoWayOut {
		return d.Error == noRoute || d.Error == noNetwork
	}
	return d.Error == noRoute && d.After > d.Before
}

// What a stopped dial ends as, in the words of the C library: by the rule, or by
// a host that has no way out.
const (
	noRoute   = "No route to host"
	noNetwork = "Network is unreachable"
)

// Prove dials each address, which should be of a pod that is gone, from a
// container on the cluster's network that has no pod route, so that only the
// host's rule can stop it. It returns an error unless each dial ended as "no
// route to host" and the counter of its family rose, or the host has no way out
// in that family. image needs bash and must be on the machine: a node image is.
// The port dialled is 9 (discard).
func (g *Guard) Prove(ctx context.Context, image string, addresses ...netip.Addr) (Proof, error) {
	var proof Proof
	for _, address := range addresses {
		if !slices.ContainsFunc(g.config.Pods, func(pods netip.Prefix) bool { return pods.Contains(address.Unmap()) }) {
			return proof, fmt.Errorf("%s can't be of a pod of this cluster: the pods' ranges are %v", address, g.config.Pods)
		}
		before, err := g.Counters(ctx)
		if err != nil {
			return proof, err
		}
		// The dial's failure is what is looked for: the script itself succeeds.
		script := fmt.Sprintf("exec 2>&1; timeout 5 bash -c 'exec 3<>/dev/tcp/%s/9' && echo connected || echo \"exit $?\"", address.Unmap())
		out, err := docker.Output(ctx, "run", "--rm", "--pull=never", "--label", Label+"="+g.config.Name, "--network", g.config.Name,
			"--env", "LC_ALL=C", "--entrypoint", "bash", image, "-c", script)
		if err != nil {
			return proof, fmt.Errorf("dial %s from the cluster's network: %w", address, err)
		}
		after, err := g.Counters(ctx)
		if err != nil {
			return proof, err
		}
		dial := Dial{Address: address, Error: dialError(out), Before: before.Pods(address), After: after.Pods(address), NoWayOut: !routed(address)}
		proof.Dials = append(proof.Dials, dial)
		if !dial.stopped() {
			return proof, fmt.Errorf("the host's rule is not proven: a dial to %s ended as %q and the counter went from %d to %d, where %q and a rise were expected",
				address, dial.Error, dial.Before, dial.After, noRoute)
		}
	}
	return proof, nil
}

// Label is on each docker network and each helping container of ours; its value
// is the guard's name.
const Label = "dev.lastcall.cluster"

// dialError finds the dial's own error in what bash printed.
func dialError(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "/dev/tcp/") {
			continue // bash says it a second time, with the path
		}
		if _, reason, ok := strings.Cut(strings.TrimSpace(line), "connect: "); ok {
			return reason
		}
	}
	return strings.TrimSpace(out)
}
