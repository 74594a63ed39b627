// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net/netip"
)

// ranges are the addresses of one cluster.
type ranges struct {
	Pods     []netip.Prefix
	Services []netip.Prefix
	// Network6 is the docker network's IPv6 range; docker chooses its IPv4
	// range itself. Not valid in a cluster without IPv6.
	Network6 netip.Prefix
}

const (
	// candidates is how many clusters can have ranges of their own: 64 below
	// 10.0.0.0/8, and for a host whose VPN claims all of that, 16 in
	// 198.18.0.0/15, which RFC 2544 keeps for measurements.
	candidates      = 80
	candidatesIn10  = 64
	clusterNetworks = "fd1c:a57c" // of all our IPv6 ranges (RFC 4193)
)

// candidate is the i-th set of ranges. None of them is what kind or kubeadm take
// by themselves (10.244.0.0/16, 10.96.0.0/12): the guard rejects on the host what
// goes to our pods, and must not hit the pods of the user's own clusters.
func candidate(i int, family string) ranges {
	var r ranges
	if family != IPv6 {
		if i < candidatesIn10 {
			r.Pods = append(r.Pods, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(128 + i), 0, 0}), 16))
			r.Services = append(r.Services, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(112 + i/16), byte(i % 16 * 16), 0}), 20))
		} else {
			third := byte((i - candidatesIn10) * 16)
			r.Pods = append(r.Pods, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, third, 0}), 20))
			r.Services = append(r.Services, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, third, 0}), 20))
		}
	}
	if family != IPv4 {
		r.Network6 = netip.MustParsePrefix(fmt.Sprintf("%s:a10:%x::/64", clusterNetworks, i<<8))
		r.Pods = append(r.Pods, netip.MustParsePrefix(fmt.Sprintf("%s:a11:%x::/56", clusterNetworks, i<<8)))
		r.Services = append(r.Services, netip.MustParsePrefix(fmt.Sprintf("%s:a12:%x::/112", clusterNetworks, i<<8)))
	}
	return r
}

// choose finds ranges that overlap nothing of what is taken: the host's routes,
// and other clusters of ours. Where it begins to look follows from the name, so
// that a cluster tends to have the same addresses each time.
func choose(name, family string, taken []netip.Prefix) (ranges, error) {
	sum := fnv.New32a()
	sum.Write([]byte(name))
	first := int(sum.Sum32() % candidatesIn10)
	var last netip.Prefix
	for i := range candidates {
		index := i
		if i < candidatesIn10 {
			index = (first + i) % candidatesIn10
		}
		r := candidate(index, family)
		if last = overlap(r, taken); !last.IsValid() {
			return r, nil
		}
	}
	return ranges{}, fmt.Errorf("no address range is free for the cluster's pods and services: this host routes all that we could take, at last %s; remove that route (a VPN's?), or other clusters with `lastcall cleanup`", last)
}

// overlap returns what of taken meets the ranges; a prefix that is not valid if
// nothing does. Default routes meet everything and don't count.
func overlap(r ranges, taken []netip.Prefix) netip.Prefix {
	ours := append(append([]netip.Prefix{}, r.Pods...), r.Services...)
	if r.Network6.IsValid() {
		ours = append(ours, r.Network6)
	}
	for _, other := range taken {
		if other.Bits() == 0 {
			continue
		}
		for _, prefix := range ours {
			if prefix.Overlaps(other) {
				return other
			}
		}
	}
	return netip.Prefix{}
}

// bridgeName is the host's interface of a cluster's network: an interface name
// has 15 characters, a cluster's may have more.
func bridgeName(name string) string {
	sum := fnv.New64a()
	sum.Write([]byte(name))
	return bridgePrefix + hex.EncodeToString(sum.Sum(nil))[:12]
}

const bridgePrefix = "lc-"
