// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestDialError(t *testing.T) {
	for out, want := range map[string]string{
		"bash: connect: No route to host\nbash: line 1: /dev/tcp/10.128.1.1/9: No route to host\nexit 1": "No route to host",
		"bash: connect: Connection refused\nbash: /dev/tcp/10.128.1.1/9: Connection refused\nexit 1":     "Connection refused",
		"exit 124":  "exit 124",
		"connected": "connected",
	} {
		if got := dialError(out); got != want {
			t.Errorf("dialError(%q) = %q, want %q", out, got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	ipv4 := append([]byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0}, 10, 1, 2, 3, 10, 4, 5, 6)
	if got := describe(ipv4); got != "10.1.2.3 > 10.4.5.6" {
		t.Errorf("describe = %q", got)
	}
	if got := describe([]byte{0x45}); got != "1 bytes of something else" {
		t.Errorf("describe of a short packet = %q", got)
	}
}

func TestStopped(t *testing.T) {
	for _, test := range []struct {
		dial Dial
		want bool
	}{
		{Dial{Error: noRoute, Before: 3, After: 4}, true},
		{Dial{Error: noRoute, Before: 3, After: 3}, false},
		{Dial{Error: "Connection refused", Before: 3, After: 4}, false},
		{Dial{Error: "exit 124", Before: 3, After: 4}, false},
		{Dial{Error: noNetwork, NoWayOut: true}, true},
		{Dial{Error: noNetwork}, false},
		{Dial{Error: "connected", NoWayOut: true}, false},
	} {
		if got := test.dial.stopped(); got != test.want {
			t.Errorf("%+v: stopped %v, want %v", test.dial, got, test.want)
		}
	}
}

func TestUnlimited(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.128.0.0/16"), netip.MustParsePrefix("fd1c:a57c:a11::/56")
	for _, test := range []struct {
		pods []netip.Prefix
		want []string
	}{
		{[]netip.Prefix{v4}, []string{"net.ipv4.icmp_ratelimit=0"}},
		// An IPv6 cluster's nodes have IPv4 addresses too.
		{[]netip.Prefix{v6}, []string{"net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0"}},
		{[]netip.Prefix{v4, v6}, []string{"net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0"}},
	} {
		if got := unlimited(test.pods); !slices.Equal(got, test.want) {
			t.Errorf("unlimited(%v) = %v, want %v", test.pods, got, test.want)
		}
	}
}

func TestRejectDead(t *testing.T) {
	got := rejectDead([]netip.Prefix{netip.MustParsePrefix("fd1c:a57c:a11::/56")})
	const want = "\t\tip6 daddr fd1c:a57c:a11::/56 fib daddr oif missing counter reject with icmpx type host-unreachable\n"
	if !strings.Contains(got, want) || strings.Contains(got, "ip daddr") {
		t.Errorf("for IPv6 alone:\n%s", got)
	}
}
