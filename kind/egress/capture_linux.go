// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Capture counts packets on one interface until it is stopped. The kernel
// filters and counts: no packet costs a wake-up here, so a capture beside a
// loaded bridge does not take part in the load.
type Capture struct {
	captured Captured
	socket   int
}

// StartCapture begins to count on an interface, in promiscuous mode, what comes
// from or goes to one of the prefixes. When it returns, it counts.
func StartCapture(iface string, prefixes []netip.Prefix) (*Capture, error) {
	program, err := Program(prefixes)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("capture filter: %w", err)
	}
	device, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, fmt.Errorf("capture on %s: %w", iface, err)
	}
	// SOCK_DGRAM: packets begin with the network header on every kind of link.
	// Protocol 0: nothing arrives until the filter is in its place.
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, rights(fmt.Errorf("packet socket for %s: %w", iface, err))
	}
	capture := &Capture{socket: socket, captured: Captured{Interface: iface, Prefixes: slices.Clone(prefixes)}}
	if err := capture.prepare(device.Index, raw); err != nil {
		return nil, errors.Join(fmt.Errorf("capture on %s: %w", iface, err), unix.Close(socket))
	}
	return capture, nil
}

func (c *Capture) prepare(index int, raw []bpf.RawInstruction) error {
	filter := make([]unix.SockFilter, len(raw))
	for i, instruction := range raw {
		filter[i] = unix.SockFilter{Code: instruction.Op, Jt: instruction.Jt, Jf: instruction.Jf, K: instruction.K}
	}
	if err := unix.SetsockoptSockFprog(c.socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("attach the filter: %w", err)
	}
	if err := unix.SetsockoptPacketMreq(c.socket, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}); err != nil {
		return fmt.Errorf("promiscuous mode: %w", err)
	}
	// sockaddr_ll wants the protocol in network byte order.
	if err := unix.Bind(c.socket, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8, Ifindex: index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return nil
}

// Stop ends the capture and returns what it saw.
func (c *Capture) Stop() (Captured, error) {
	// The kernel's number holds those too that found the buffer full.
	stats, err := unix.GetsockoptTpacketStats(c.socket, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return c.captured, errors.Join(fmt.Errorf("statistics of the capture on %s: %w", c.captured.Interface, err), unix.Close(c.socket))
	}
	c.captured.Packets = uint64(stats.Packets)
	buffer := make([]byte, keep)
	for len(c.captured.Samples) < maxSamples {
		n, _, err := unix.Recvfrom(c.socket, buffer, 0)
		if err != nil {
			break // EAGAIN: there were no more
		}
		c.captured.Samples = append(c.captured.Samples, describe(buffer[:n]))
	}
	if err := unix.Close(c.socket); err != nil {
		return c.captured, fmt.Errorf("close the capture on %s: %w", c.captured.Interface, err)
	}
	return c.captured, nil
}
