// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Meaning is a word of the suite's, and what it means.
type Meaning struct{ Word, Means string }

// words are those of checks, findings and reports.
var words = []Meaning{
	{"T_del", "its deletion shows (in a cluster: at the API server)"},
	{"D", "the pod is told to stop: its preStop hook or SIGTERM reaches it"},
	{"T_endpoint", "its endpoint (in a cluster: its EndpointSlice) says that it terminates"},
	{"T(serving=false)", "its endpoint says that it serves no more"},
	{"T_lastnew", "the last new connection through the Service reaches it"},
	{"T_exit", "its process is gone"},
	{"T_net", "its network interface is gone"},
	{"P", "the propagation window: how long the service network (kube-proxy, or what stands in for it) may take to notice that a pod goes (--p, 3 s by default)"},
	{"K", "the kill: the grace period is over, and what is left is killed"},
	{"drain call", "SIGTERM to the container, without a deletion of its pod"},
	{"ledger", "what the backends write down of every request"},
	{"unmatched", "only the client or only the ledger knows of it; lost: its client got no good answer, and no word that it may try again"},
	{"sent late", "requests for which the suite's own client missed its schedule: they are no evidence for a pass"},
	{"scout", "the suite's own look whether the way to the pods is there"},
	{"pressure", "closed-loop load beside the streams, which no verdict rests on; its rest was served, and no answer counts for it"},
}

// Legend explains the words of the suite's that a text uses.
func Legend(about string) string {
	var used []Meaning
	for _, m := range words {
		// A letter is a word where no other letter touches it: "[D, D+P]".
		if regexp.MustCompile(`(^|[^A-Za-z_])` + regexp.QuoteMeta(m.Word) + `([^A-Za-z_]|$)`).MatchString(about) {
			used = append(used, m)
		}
	}
	return Meanings(used)
}

// Meanings writes words beside what they mean.
func Meanings(all []Meaning) string {
	wide := 0
	for _, m := range all {
		wide = max(wide, utf8.RuneCountInString(m.Word))
	}
	var out strings.Builder
	for _, m := range all {
		out.WriteString(Wrap(fmt.Sprintf("  %-*s  ", wide, m.Word), m.Means))
	}
	return out.String()
}
