// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The counters' names in the table.
const (
	podsIPv4     = "pods4"
	podsIPv6     = "pods6"
	servicesIPv4 = "services4"
	servicesIPv6 = "services6"
	sentIPv4     = "sent4"
	sentIPv6     = "sent6"
	leaving      = "leaving"
)

// Check tells whether this user may install a guard here: ErrRights if not.
func Check() error {
	_, err := tables()
	return err
}

// Install makes the guard stand, in one transaction; one of the same name that
// stood before is replaced, with its counters. The bridge need not exist yet:
// install before anything can send.
func Install(_ context.Context, config Config) (*Guard, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, rights(fmt.Errorf("reach nftables: %w", err))
	}
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: config.Name}
	// Adding before deleting makes the deletion legal whether it was there or
	// not, and the batch is atomic.
	conn.AddTable(table)
	conn.DelTable(table)
	conn.AddTable(table)
	for _, name := range []string{podsIPv4, podsIPv6, servicesIPv4, servicesIPv6, sentIPv4, sentIPv6, leaving} {
		conn.AddObj(&nftables.NamedObj{Table: table, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
	}
	accept := nftables.ChainPolicyAccept
	for _, hook := range []struct {
		name string
		hook *nftables.ChainHook
	}{{"forward", nftables.ChainHookForward}, {"output", nftables.ChainHookOutput}} {
		chain := conn.AddChain(&nftables.Chain{
			Table: table, Name: hook.name, Type: nftables.ChainTypeFilter,
			Hooknum: hook.hook, Priority: nftables.ChainPriorityFilter, Policy: &accept,
		})
		for _, rule := range rules(config, hook.hook == nftables.ChainHookForward) {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule})
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, rights(fmt.Errorf("install the nftables table %s: %w", config.Name, err))
	}
	return &Guard{config: config}, nil
}

// Open returns the guard that stands under the configuration's name.
func Open(config Config) (*Guard, error) {
	names, err := tables()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, config.Name) {
		return nil, fmt.Errorf("the egress guard %s does not stand: %w", config.Name, fs.ErrNotExist)
	}
	return &Guard{config: config}, nil
}

// Remove takes the guard of that name down. It tells whether one stood.
func Remove(_ context.Context, name string) (bool, error) {
	names, err := tables()
	if err != nil || !slices.Contains(names, name) {
		return false, err
	}
	conn, err := nftables.New()
	if err != nil {
		return false, rights(fmt.Errorf("reach nftables: %w", err))
	}
	conn.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: name})
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return false, rights(fmt.Errorf("remove the nftables table %s: %w", name, err))
	}
	return true, nil
}

// Standing lists the guards of this host whose names begin with a prefix.
func Standing(prefix string) ([]string, error) {
	names, err := tables()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) }), nil
}

// Counters reads what was rejected so far.
func (g *Guard) Counters(_ context.Context) (Counters, error) {
	conn, err := nftables.New()
	if err != nil {
		return Counters{}, rights(fmt.Errorf("reach nftables: %w", err))
	}
	objects, err := conn.GetNamedObjects(&nftables.Table{Family: nftables.TableFamilyINet, Name: g.config.Name})
	if err != nil {
		return Counters{}, rights(fmt.Errorf("read the counters of %s: %w", g.config.Name, err))
	}
	var counters Counters
	fields := map[string]*uint64{
		podsIPv4: &counters.PodsIPv4, podsIPv6: &counters.PodsIPv6,
		servicesIPv4: &counters.ServicesIPv4, servicesIPv6: &counters.ServicesIPv6,
		sentIPv4: &counters.SentIPv4, sentIPv6: &counters.SentIPv6, leaving: &counters.Leaving,
	}
	for _, object := range objects {
		named, ok := object.(*nftables.NamedObj)
		if !ok {
			continue
		}
		if counter, ok := named.Obj.(*expr.Counter); ok && fields[named.Name] != nil {
			*fields[named.Name] = counter.Packets
			delete(fields, named.Name)
		}
	}
	if len(fields) > 0 {
		return Counters{}, fmt.Errorf("the egress guard %s lacks %d of its counters: somebody changed it; bring the cluster up again", g.config.Name, len(fields))
	}
	return counters, nil
}

// rules lists what one base chain does, in order. What goes to the cluster's
// own bridge stays on the machine and passes: that is how the host reaches the
// nodes, and how the nodes' own packets look where the bridge is filtered too
// (br_netfilter).
func rules(config Config, forward bool) [][]expr.Any {
	list := [][]expr.Any{
		append(onInterface(expr.MetaKeyOIFNAME, config.Bridge), &expr.Verdict{Kind: expr.VerdictAccept}),
	}
	pods, services := [2]string{podsIPv4, podsIPv6}, [2]string{servicesIPv4, servicesIPv6}
	if !forward {
		pods, services = [2]string{sentIPv4, sentIPv6}, [2]string{sentIPv4, sentIPv6}
	}
	for _, group := range []struct {
		prefixes []netip.Prefix
		counters [2]string // IPv4, IPv6
	}{{config.Pods, pods}, {config.Services, services}} {
		for _, prefix := range group.prefixes {
			counter := group.counters[0]
			if prefix.Addr().Is6() {
				counter = group.counters[1]
			}
			list = append(list, append(toPrefix(prefix), reject(counter)...))
		}
	}
	if forward {
		list = append(list, append(onInterface(expr.MetaKeyIIFNAME, config.Bridge), reject(leaving)...))
	}
	return list
}

func onInterface(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded},
	}
}

// toPrefix matches a destination address.
func toPrefix(prefix netip.Prefix) []expr.Any {
	// Offsets of the destination address in RFC 791 and RFC 8200 headers.
	protocol, offset := byte(unix.NFPROTO_IPV4), uint32(16)
	if prefix.Addr().Is6() {
		protocol, offset = unix.NFPROTO_IPV6, 24
	}
	address := prefix.Masked().Addr().AsSlice()
	length := uint32(len(address))
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: length, Mask: net.CIDRMask(prefix.Bits(), len(address)*8), Xor: make([]byte, length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: address},
	}
}

// reject counts, and answers with the ICMP message that makes the sender's dial
// end at once as "no route to host", in both families.
func reject(counter string) []expr.Any {
	return []expr.Any{
		&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: counter},
		&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_HOST_UNREACH},
	}
}

func tables() ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, rights(fmt.Errorf("reach nftables: %w", err))
	}
	list, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, rights(fmt.Errorf("list the host's nftables tables: %w", err))
	}
	names := make([]string, len(list))
	for i, table := range list {
		names[i] = table.Name
	}
	return names, nil
}

// routed tells whether the host has a route for an address.
func routed(address netip.Addr) bool {
	_, err := netlink.RouteGet(net.IP(address.AsSlice()))
	return !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH)
}

// rights says it plainly where it was the user who was refused.
func rights(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w (%w)", ErrRights, err)
	}
	return err
}
