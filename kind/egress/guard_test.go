// SPDX-License-Identifier: Apache-2.0

package egress

import "testing"

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
