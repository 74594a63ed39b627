// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lastcall-dev/lastcall/kind/egress"
)

// inNetns runs the rest of the test in a network namespace of its own, which
// ends with the test's thread. Its default routes lead out of an interface
// "out", whose other end nobody reads; there is a second one, "bridge".
func inNetns(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: a network namespace takes root")
	}
	// Never unlocked: the thread is thrown away, and the namespace with it.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("skipped: no network namespace to be had: %v", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	for name, addresses := range map[string][]string{
		"out":    {"192.0.2.2/24", "2001:db8::2/64"},
		"bridge": {"172.18.0.1/16", "fd1c:a57c:a10:100::1/64"},
	} {
		link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-peer"}
		if err := netlink.LinkAdd(link); err != nil {
			t.Fatal(err)
		}
		peer, err := netlink.LinkByName(link.PeerName)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(peer); err != nil {
			t.Fatal(err)
		}
		for _, text := range addresses {
			address, err := netlink.ParseAddr(text)
			if err != nil {
				t.Fatal(err)
			}
			address.Flags |= unix.IFA_F_NODAD
			if err := netlink.AddrAdd(link, address); err != nil {
				t.Fatal(err)
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
		if name == "out" {
			for _, gateway := range []string{"192.0.2.1", "2001:db8::1"} {
				if err := netlink.RouteAdd(&netlink.Route{LinkIndex: link.Index, Gw: net.ParseIP(gateway)}); err != nil {
					t.Fatal(err)
				}
				// Nobody answers ARP there, and without a neighbour nothing
				// would ever be sent.
				if err := netlink.NeighAdd(&netlink.Neigh{
					LinkIndex: link.Index, IP: net.ParseIP(gateway), State: netlink.NUD_PERMANENT,
					HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1},
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// dial begins a TCP connection from this thread, and so from its namespace. The
// end comes a second later: the kernel drops an ICMP error that arrives while
// the dialler still holds its socket, and hears the one for the next SYN.
func dial(t *testing.T, address string) (end func(time.Duration) error) {
	t.Helper()
	to := netip.MustParseAddrPort(address)
	domain, target := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		domain, target = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	socket, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	started := unix.Connect(socket, target)
	return func(budget time.Duration) error {
		defer unix.Close(socket)
		if !errors.Is(started, unix.EINPROGRESS) {
			return started
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLOUT}}, int(budget.Milliseconds()))
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLOUT}}, int(budget.Milliseconds()))
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return context.DeadlineExceeded
		}
		code, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return err
		}
		return syscall.Errno(code)
	}
}

func TestGuard(t *testing.T) {
	inNetns(t)
	ctx := context.Background()
	config := egress.Config{
		Name: "lastcall-test", Bridge: "bridge",
		Pods:     prefixes("10.128.0.0/16", "fd1c:a57c:a11:100::/56"),
		Services: prefixes("10.112.16.0/20", "fd1c:a57c:a12:100::/112"),
	}
	if _, err := egress.Open(config); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open before Install: %v, want that it does not exist", err)
	}
	capture, err := egress.StartCapture("out", slices.Concat(config.Pods, config.Services))
	if err != nil {
		t.Fatal(err)
	}
	control, err := egress.StartCapture("out", prefixes("198.51.100.0/24", "2001:db8:1::/48"))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := egress.Install(ctx, config); err != nil {
		t.Fatal(err)
	}
	// Again: one that stands is replaced.
	guard, err := egress.Install(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	stopped := map[string]func(time.Duration) error{}
	for _, address := range []string{"10.128.3.4:9", "10.128.3.5:9", "[fd1c:a57c:a11:101::1]:9", "10.112.16.1:80", "[fd1c:a57c:a12:100::a]:80"} {
		stopped[address] = dial(t, address)
	}
	for address, end := range stopped {
		if err := end(time.Minute); !errors.Is(err, syscall.EHOSTUNREACH) {
			t.Errorf("dial %s: %v, want no route to host", address, err)
		}
	}
	for _, address := range []string{"198.51.100.1:9", "[2001:db8:1::1]:9"} {
		if err := dial(t, address)(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial %s: %v, want that it waits: it is none of the guard's", address, err)
		}
	}
	// The host still reaches what is on the cluster's own network.
	if err := dial(t, "172.18.0.1:9")(time.Minute); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial to the bridge's own address: %v, want a refusal by the socket", err)
	}

	got, err := guard.Counters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	forwarded := egress.Counters{SentIPv4: got.SentIPv4, SentIPv6: got.SentIPv6}
	if got != forwarded || got.SentIPv4 < 3 || got.SentIPv6 < 2 {
		t.Errorf("counters %+v, want at least one for each dial, all sent by the host itself", got)
	}
	captured, err := capture.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if captured.Packets != 0 {
		t.Errorf("%d packets left the machine: %v", captured.Packets, captured.Samples)
	}
	if captured, err = control.Stop(); err != nil {
		t.Fatal(err)
	}
	if captured.Packets < 2 || len(captured.Samples) < 2 {
		t.Errorf("the same capture with a filter that should match saw %d packets (%v): it is blind", captured.Packets, captured.Samples)
	}

	if names, err := egress.Standing("lastcall-"); err != nil || !slices.Contains(names, config.Name) {
		t.Errorf("Standing = %v, %v", names, err)
	}
	if removed, err := egress.Remove(ctx, config.Name); err != nil || !removed {
		t.Errorf("Remove = %v, %v", removed, err)
	}
	if removed, err := egress.Remove(ctx, config.Name); err != nil || removed {
		t.Errorf("Remove of what is gone = %v, %v", removed, err)
	}
	if err := dial(t, "10.128.3.4:9")(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial after Remove: %v, want that nothing stops it", err)
	}
}
