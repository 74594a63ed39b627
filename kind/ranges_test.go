// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"net/netip"
	"strings"
	"testing"
)

// Every set must keep clear of every other one, and of what kind and kubeadm
// take by themselves: two clusters, or a user's own beside ours, would else hit
// each other's guards.
func TestCandidatesKeepClear(t *testing.T) {
	taken := []netip.Prefix{}
	for _, text := range []string{
		"10.244.0.0/16", "10.96.0.0/12", "fd00:10:244::/56", "fd00:10:96::/112", // kind, kubeadm
		"172.16.0.0/12", "192.168.0.0/16", // docker
		"fe80::/10", "ff00::/8",
	} {
		taken = append(taken, netip.MustParsePrefix(text))
	}
	for i := range candidates {
		r := candidate(i, Dual)
		if other := overlap(r, taken); other.IsValid() {
			t.Errorf("candidate %d (%+v) meets %s", i, r, other)
		}
		for _, prefix := range append(append([]netip.Prefix{r.Network6}, r.Pods...), r.Services...) {
			if prefix != prefix.Masked() {
				t.Errorf("candidate %d: %s has host bits", i, prefix)
			}
		}
		if len(r.Pods) != 2 || len(r.Services) != 2 || !r.Pods[0].Addr().Is4() || !r.Services[1].Addr().Is6() {
			t.Errorf("candidate %d is not dual, IPv4 first: %+v", i, r)
		}
		taken = append(append(append(taken, r.Pods...), r.Services...), r.Network6)
	}
}

func TestChoose(t *testing.T) {
	first, err := choose("a", Dual, []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
	if err != nil {
		t.Fatal(err)
	}
	again, err := choose("a", Dual, nil)
	if err != nil || again.Pods[0] != first.Pods[0] {
		t.Errorf("the same name got %v, then %v (%v)", first.Pods, again.Pods, err)
	}
	moved, err := choose("a", Dual, first.Services[:1])
	if err != nil || moved.Pods[0] == first.Pods[0] {
		t.Errorf("with its services taken it got %v (%v)", moved.Pods, err)
	}
	vpn, err := choose("a", IPv4, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	if err != nil || vpn.Pods[0].String() != "198.18.0.0/20" {
		t.Errorf("behind a VPN that claims 10.0.0.0/8: %v, %v", vpn.Pods, err)
	}
	_, err = choose("a", IPv4, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("198.18.0.0/15")})
	if err == nil || !strings.Contains(err.Error(), "at last 198.18.0.0/15") {
		t.Errorf("nothing free: %v", err)
	}
}

func TestBridgeName(t *testing.T) {
	long, other := bridgeName(strings.Repeat("a", 40)), bridgeName("a")
	if len(long) > 15 || !strings.HasPrefix(long, "lc-") || long == other {
		t.Errorf("bridge names %q and %q", long, other)
	}
}
