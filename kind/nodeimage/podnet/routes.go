// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// protocol marks the routes that are ours in the kernel's table (rtnetlink(7),
// rtm_protocol; values above RTPROT_STATIC are free for routing daemons).
const protocol netlink.RouteProtocol = 76

// route is a wish: packets for dst go to via, or are refused where via is invalid.
type route struct {
	dst netip.Prefix
	via netip.Addr
}

// prefixes reads a comma-separated list of subnets, as kind writes it.
func prefixes(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("pod subnet: %w", err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// podCIDRs of a node, one for each IP family; none until the controller manager has
// given it any.
func podCIDRs(node *corev1.Node) ([]netip.Prefix, error) {
	return prefixes(strings.Join(node.Spec.PodCIDRs, ","))
}

// routesFor gives the routes of the node named self. The pod subnets as a whole are
// refused: a live pod's own route and another node's subnet are longer prefixes and
// win, so that only packets for nobody are refused, and do not take the default route
// out of the node. Nodes without a subnet or address are left out until they have both.
func routesFor(self string, nodes []*corev1.Node, subnets []netip.Prefix) ([]route, error) {
	var out []route
	for _, s := range subnets {
		out = append(out, route{dst: s})
	}
	for _, node := range nodes {
		cidrs, err := podCIDRs(node)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", node.Name, err)
		}
		for _, cidr := range cidrs {
			if node.Name == self {
				if !slices.ContainsFunc(subnets, func(s netip.Prefix) bool { return s.Overlaps(cidr) }) {
					out = append(out, route{dst: cidr})
				}
				continue
			}
			if via := addressOf(node, cidr.Addr().Is6()); via.IsValid() {
				out = append(out, route{dst: cidr, via: via})
			}
		}
	}
	return out, nil
}

// addressOf is the node's internal address of one IP family.
func addressOf(node *corev1.Node, v6 bool) netip.Addr {
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is6() == v6 {
			return ip
		}
	}
	return netip.Addr{}
}

// apply makes the kernel's routes of our protocol equal to want and reports how many
// it changed.
func apply(want []route) (int, error) {
	have, err := ours()
	if err != nil {
		return 0, err
	}
	var (
		changed  int
		failures []error
	)
	for _, w := range want {
		if slices.ContainsFunc(have, func(h netlink.Route) bool { return fromKernel(h) == w }) {
			continue
		}
		if err := netlink.RouteReplace(toKernel(w)); err != nil {
			failures = append(failures, fmt.Errorf("route to %s via %s: %w", w.dst, w.via, err))
			continue
		}
		changed++
	}
	for _, h := range have {
		dst := fromKernel(h).dst
		if slices.ContainsFunc(want, func(w route) bool { return w.dst == dst }) {
			continue
		}
		if err := netlink.RouteDel(&h); err != nil && !errors.Is(err, unix.ESRCH) {
			failures = append(failures, fmt.Errorf("remove route to %s: %w", dst, err))
			continue
		}
		changed++
	}
	return changed, errors.Join(failures...)
}

func ours() ([]netlink.Route, error) {
	var out []netlink.Route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netlink.RouteListFiltered(family, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		out = append(out, list...)
	}
	return out, nil
}

func toKernel(r route) *netlink.Route {
	out := &netlink.Route{
		Dst:      &net.IPNet{IP: r.dst.Addr().AsSlice(), Mask: net.CIDRMask(r.dst.Bits(), r.dst.Addr().BitLen())},
		Protocol: protocol,
	}
	if r.via.IsValid() {
		out.Gw = r.via.AsSlice()
	} else {
		out.Type = unix.RTN_UNREACHABLE
	}
	return out
}

func fromKernel(r netlink.Route) route {
	var out route
	if r.Dst != nil {
		addr, _ := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		out.dst = netip.PrefixFrom(addr.Unmap(), bits)
	}
	if addr, ok := netip.AddrFromSlice(r.Gw); ok {
		out.via = addr.Unmap()
	}
	return out
}

// mtuOf is the MTU of the link that carries one of the addresses, 0 if none does.
// Pods must not have a larger one than the way to the other nodes.
func mtuOf(addresses []netip.Addr) (int, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return 0, fmt.Errorf("list links: %w", err)
	}
	for _, link := range links {
		have, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return 0, fmt.Errorf("addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, a := range have {
			ip, _ := netip.AddrFromSlice(a.IP)
			if slices.Contains(addresses, ip.Unmap()) {
				return link.Attrs().MTU, nil
			}
		}
	}
	return 0, nil
}
