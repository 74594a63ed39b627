// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"

	"golang.org/x/net/bpf"
)

// Offsets of the source and the destination address in a packet that begins
// with its network header.
const (
	ipv4Source, ipv4Destination = 12, 16
	ipv6Source, ipv6Destination = 8, 24
	arpSender, arpTarget        = 14, 24
	// arpIPv4 is how ARP for IPv4 over Ethernet begins: hardware type 1,
	// protocol type 0x0800.
	arpIPv4 = 0x0001_0800
)

// keep is what the filter returns for a packet that matches: the bytes that are
// kept of it, enough for its addresses.
const keep = 40

// Program makes a classic BPF program that accepts packets, from the network
// header on, whose source or destination is in one of the prefixes; ARP that
// asks or answers for one counts too.
func Program(prefixes []netip.Prefix) ([]bpf.Instruction, error) {
	var four, six []netip.Prefix
	for _, prefix := range prefixes {
		if !prefix.IsValid() {
			return nil, fmt.Errorf("capture filter: %v is not a prefix", prefix)
		}
		if prefix.Addr().Is4() {
			four = append(four, prefix.Masked())
		} else {
			six = append(six, prefix.Masked())
		}
	}
	arp := matchAny(four, arpSender, arpTarget)
	ipv4 := matchAny(four, ipv4Source, ipv4Destination)
	ipv6 := matchAny(six, ipv6Source, ipv6Destination)
	for _, section := range [][]bpf.Instruction{arp, ipv4, ipv6} {
		if len(section)+1 > math.MaxUint8 {
			return nil, fmt.Errorf("capture filter: %d prefixes are too many for one program", len(prefixes))
		}
	}
	var program []bpf.Instruction
	program = append(program,
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: arpIPv4, SkipTrue: uint8(len(arp))})
	program = append(program, arp...)
	for _, ip := range []struct {
		version uint32
		section []bpf.Instruction
	}{{4, ipv4}, {6, ipv6}} {
		program = append(program,
			bpf.LoadAbsolute{Off: 0, Size: 1},
			bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ip.version, SkipTrue: uint8(len(ip.section))})
		program = append(program, ip.section...)
	}
	return append(program, bpf.RetConstant{Val: 0}), nil
}

// matchAny accepts where the address at one of the offsets is in one of the
// prefixes, and rejects at its end.
func matchAny(prefixes []netip.Prefix, offsets ...uint32) []bpf.Instruction {
	var section []bpf.Instruction
	for _, prefix := range prefixes {
		for _, offset := range offsets {
			section = append(section, match(prefix, offset)...)
		}
	}
	return append(section, bpf.RetConstant{Val: 0})
}

// match accepts where the address at the offset is in the prefix, and falls
// through otherwise. It compares as many 32-bit words as the prefix is long.
func match(prefix netip.Prefix, offset uint32) []bpf.Instruction {
	address := prefix.Addr().AsSlice()
	words := (prefix.Bits() + 31) / 32
	var out []bpf.Instruction
	for i := range words {
		mask := uint32(math.MaxUint32)
		if rest := prefix.Bits() - 32*i; rest < 32 {
			mask <<= 32 - rest
		}
		// Three instructions a word, and one that accepts.
		rest := 3*(words-i-1) + 1
		out = append(out,
			bpf.LoadAbsolute{Off: offset + uint32(4*i), Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(address[4*i:]), SkipTrue: uint8(rest)})
	}
	return append(out, bpf.RetConstant{Val: keep})
}
