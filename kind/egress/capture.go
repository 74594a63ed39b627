// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Captured is what a capture saw.
type Captured struct {
	Interface string
	Prefixes  []netip.Prefix
	Packets   uint64   // sent or received on the interface, from or to one of the prefixes
	Samples   []string // some of them, "10.1.2.3 > 10.4.5.6", for whoever must find out
}

// maxSamples bounds what is told of single packets: the number is the evidence.
const maxSamples = 10

// describe names the two ends of a packet that begins with its network header.
func describe(packet []byte) string {
	address := func(offset, length int) string {
		a, ok := netip.AddrFromSlice(packet[offset : offset+length])
		if !ok {
			return "?"
		}
		return a.String()
	}
	switch {
	case len(packet) >= arpTarget+4 && binary.BigEndian.Uint32(packet) == arpIPv4:
		return fmt.Sprintf("arp %s > %s", address(arpSender, 4), address(arpTarget, 4))
	case len(packet) >= ipv4Destination+4 && packet[0]>>4 == 4:
		return fmt.Sprintf("%s > %s", address(ipv4Source, 4), address(ipv4Destination, 4))
	case len(packet) >= ipv6Destination+16 && packet[0]>>4 == 6:
		return fmt.Sprintf("%s > %s", address(ipv6Source, 16), address(ipv6Destination, 16))
	}
	return fmt.Sprintf("%d bytes of something else", len(packet))
}
