#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kube-proxy must write its rules with the flavour of iptables that its node uses.
# The kubelet leaves the chain KUBE-IPTABLES-HINT with the node's own flavour; nft
# is what a node without any sign uses.
set -eu
flavour=nft
if ! iptables-nft-save -t mangle 2>/dev/null | grep -q KUBE-IPTABLES-HINT &&
	! ip6tables-nft-save -t mangle 2>/dev/null | grep -q KUBE-IPTABLES-HINT; then
	if iptables-legacy-save -t mangle 2>/dev/null | grep -q KUBE-IPTABLES-HINT ||
		ip6tables-legacy-save -t mangle 2>/dev/null | grep -q KUBE-IPTABLES-HINT; then
		flavour=legacy
	fi
fi
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
	ln -sf "xtables-$flavour-multi" "/usr/sbin/$name"
done
exec /usr/local/bin/kube-proxy.real "$@"
