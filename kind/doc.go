// SPDX-License-Identifier: Apache-2.0

// Package kind brings up clusters that this machine can't lose a packet from,
// and takes them down again whatever state they are in.
//
// Provider makes a cluster, for this suite and for anyone's e2e-framework suite; Up, Open
// and Down are what it is made of. All go over kind's Go library, never over its program. What is ours carries a name of ours: a cluster NAME is the kind
// cluster, the docker network and the nftables table "lastcall-NAME", the bridge
// "lc-" and a hash, and a folder with its kubeconfig. The user's own clusters,
// their network "kind" and their kubeconfig are never touched.
package kind
