// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dumps is how often the kernel is asked for a list that changes while it tells of it, as when a cluster comes up.
const dumps = 10

// whole is a list of the kernel's that nothing changed meanwhile.
func whole[T any](list func() ([]T, error)) (all []T, err error) {
	for range dumps {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// hostPrefixes are the destinations of the host's routes, all tables.
func hostPrefixes() ([]netip.Prefix, error) {
	routes, err := whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("read the host's routes: %w", err)
	}
	var list []netip.Prefix
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		address, ok := netip.AddrFromSlice(route.Dst.IP)
		if !ok {
			continue
		}
		ones, _ := route.Dst.Mask.Size()
		list = append(list, netip.PrefixFrom(address.Unmap(), ones))
	}
	return list, nil
}

// OuterInterfaces names the interfaces that the host's default routes use, where
// a packet of a cluster would leave the machine.
func OuterInterfaces() ([]string, error) {
	routes, err := whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("read the host's routes: %w", err)
	}
	var names []string
	for _, route := range routes {
		if route.Dst != nil {
			if ones, _ := route.Dst.Mask.Size(); ones > 0 {
				continue
			}
		}
		link, err := netlink.LinkByIndex(route.LinkIndex)
		if err != nil {
			continue // an unreachable default has no interface
		}
		if !slices.Contains(names, link.Attrs().Name) {
			names = append(names, link.Attrs().Name)
		}
	}
	return names, nil
}

// ownBridge is what our bridges are called: nobody else's has twelve such digits.
var ownBridge = regexp.MustCompile("^" + bridgePrefix + "[0-9a-f]{12}$")

// removeBridges deletes the bridges of ours that docker knows nothing of any
// more, because its own memory was lost. It names them.
func removeBridges() ([]string, error) {
	links, err := whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list the host's interfaces: %w", err)
	}
	var removed []string
	for _, link := range links {
		name := link.Attrs().Name
		if link.Type() != "bridge" || !ownBridge.MatchString(name) {
			continue
		}
		if err := netlink.LinkDel(link); err != nil {
			return removed, fmt.Errorf("delete the bridge %s: %w", name, err)
		}
		removed = append(removed, "bridge "+name)
	}
	return removed, nil
}
