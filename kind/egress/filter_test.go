// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/lastcall-dev/lastcall/kind/egress"
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// packet builds a network header with two addresses; kind is ip or arp.
func packet(t *testing.T, kind, from, to string) []byte {
	t.Helper()
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	switch {
	case kind == "arp":
		out, err := hex.DecodeString("0001080006040001" + "020000000001")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, source.AsSlice()...)
		out = append(out, make([]byte, 6)...)
		return append(out, destination.AsSlice()...)
	case source.Is4():
		out := make([]byte, 12, 40)
		out[0] = 0x45
		out = append(out, source.AsSlice()...)
		return append(append(out, destination.AsSlice()...), make([]byte, 20)...)
	default:
		out := make([]byte, 8, 60)
		out[0] = 0x60
		out = append(out, source.AsSlice()...)
		return append(append(out, destination.AsSlice()...), make([]byte, 20)...)
	}
}

func TestProgram(t *testing.T) {
	both := prefixes("10.128.0.0/16", "172.18.0.0/16", "10.112.16.0/20", "fd1c:a57c:a11:100::/56", "fd1c:a57c:a12:100::/112")
	for _, test := range []struct {
		name           string
		prefixes       []netip.Prefix
		kind, from, to string
		want           bool
	}{
		{"to a pod", both, "ip", "192.0.2.2", "10.128.3.4", true},
		{"from a pod", both, "ip", "10.128.3.4", "192.0.2.2", true},
		{"to a node", both, "ip", "192.0.2.2", "172.18.0.5", true},
		{"to a service, last address of the range", both, "ip", "192.0.2.2", "10.112.31.255", true},
		{"just after the service range", both, "ip", "192.0.2.2", "10.112.32.0", false},
		{"just before the pod range", both, "ip", "192.0.2.2", "10.127.255.255", false},
		{"the machine's own", both, "ip", "192.0.2.2", "192.0.2.1", false},
		{"to a pod, IPv6", both, "ip", "fd00::2", "fd1c:a57c:a11:1ff::1", true},
		{"from a pod, IPv6", both, "ip", "fd1c:a57c:a11:101::1", "fd00::2", true},
		{"just after the pod range, IPv6", both, "ip", "fd00::2", "fd1c:a57c:a11:200::1", false},
		{"to a service, IPv6", both, "ip", "fd00::2", "fd1c:a57c:a12:100::a", true},
		{"just after the service range, IPv6", both, "ip", "fd00::2", "fd1c:a57c:a12:100:0:0:1:0", false},
		{"arp for a pod", both, "arp", "192.0.2.2", "10.128.3.4", true},
		{"arp by a node", both, "arp", "172.18.0.5", "192.0.2.2", true},
		{"arp for the gateway", both, "arp", "192.0.2.2", "192.0.2.1", false},
		{"an IPv4 filter does not read IPv6", prefixes("0.0.0.0/0"), "ip", "fd00::2", "fd00::1", false},
		{"everything of a family", prefixes("::/0"), "ip", "fd00::2", "fd00::1", true},
		{"one host", prefixes("192.0.2.9/32"), "ip", "192.0.2.2", "192.0.2.9", true},
		{"one host, another", prefixes("192.0.2.9/32"), "ip", "192.0.2.2", "192.0.2.8", false},
		{"no prefix at all", nil, "ip", "192.0.2.2", "192.0.2.1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			program, err := egress.Program(test.prefixes)
			if err != nil {
				t.Fatal(err)
			}
			vm, err := bpf.NewVM(program)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := vm.Run(packet(t, test.kind, test.from, test.to))
			if err != nil {
				t.Fatal(err)
			}
			if got := kept > 0; got != test.want {
				t.Errorf("%s > %s: accepted %v, want %v", test.from, test.to, got, test.want)
			}
		})
	}
}

func TestProgramRefuses(t *testing.T) {
	if _, err := egress.Program([]netip.Prefix{{}}); err == nil || !strings.Contains(err.Error(), "not a prefix") {
		t.Errorf("a zero prefix: %v", err)
	}
	many := make([]netip.Prefix, 100)
	for i := range many {
		many[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)
	}
	if _, err := egress.Program(many); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("100 prefixes: %v", err)
	}
}
