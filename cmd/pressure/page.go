// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/markdown"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// passes says whether a generator, or all of them, saw nothing.
func passes(all []client) bool {
	return !slices.ContainsFunc(all, func(c client) bool { return c.Errors > 0 })
}

// write is the page of what was measured.
func write(all []row) []byte {
	var b bytes.Buffer
	var passed, k8s, revisions []string
	faults := 0
	add := func(to *[]string, what string) {
		if what != "" && !slices.Contains(*to, what) {
			*to = append(*to, what)
		}
	}
	for _, r := range all {
		add(&k8s, r.Kubernetes)
		add(&revisions, r.Revision)
		if r.Fault == "" {
			continue
		}
		faults++
		if passes(r.Clients) && r.Verdict == spec.Fail {
			passed = append(passed, "`"+string(r.Fault)+"`")
		}
	}
	suite := "" // a build without version control stamps has no revision
	if len(revisions) > 0 {
		suite = ", suite " + strings.Join(revisions, ", ")
	}
	fmt.Fprintf(&b, `# What a common load generator would have passed

**%d of %d faults are seen by none of fortio (with and without keep-alive) and hey, and fail a rule of the suite:
%s.**

Under each fault of the areas %s that breaks a system (those that break the suite itself are left out) the three
generators ran beside the suite's own clients, through the same Service, from the steady gate to the end of
the recording's tail, while the same was done to the same pods: %d connections each, in a closed loop, %d requests/s
each. Kind, Kubernetes %s, three nodes%s. Each row is one recording: a generator's 0 in it is
no proof that it never sees the fault. Its errors are worth what they are beside those of the first row, in which
nothing is broken. Where pods are deleted or rolled out the suite's own fortio runs too (100 connections,
100 requests/s).

A number is the errors among all requests (fortio's without the first of each connection, which it does not count). The suite's numbers are its clients' through the
Service, in HTTP/1.1 and HTTP/2, on new and on reused connections, from the first disruption on, and, where it looks there
too, elsewhere: at the pods' own addresses (where a dial to a pod that is gone fails too, as it should) and other Services.
What it looks at besides (the ledger, the EndpointSlices, the instants) is in its verdict.

`, len(passed), faults, strings.Join(passed, ", "), strings.Join(areas, " and "), conns, qps, strings.Join(k8s, ", "), suite)
	names := []string{}
	for _, g := range generators() {
		names = append(names, g.name)
	}
	fmt.Fprintf(&b, "| fault | what is broken | %s | the suite's clients | verdict of the suite | a common generator |\n|---|---|%s---:|---|---|\n", strings.Join(names, " | "), strings.Repeat("---:|", len(names)))
	for _, r := range all {
		var cells []string
		for _, c := range r.Clients {
			cells = append(cells, errorsOf(c))
		}
		word := "sees it"
		switch {
		case r.Fault == "":
			word = "-"
		case passes(r.Clients) && r.Verdict == spec.Fail:
			word = "**passes it**"
		case passes(r.Clients):
			word = "sees nothing"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s `%s`: %s | %s |\n", r.key(), markdown.Escape(r.Component+" "+r.Does), strings.Join(cells, " | "),
			probe(r), r.Verdict, r.Behaviour, markdown.Escape(r.Reason), word)
	}
	b.WriteString("\nMade by `go run ./cmd/pressure`, which takes up where it stopped; one row again: remove its file in lastcall-report/pressure, or `-only FAULT`.\n")
	return b.Bytes()
}

// probe is what the suite's clients lost: over the Service, as the generators go, and
// elsewhere.
func probe(r row) string {
	var says []string
	if r.Sent > 0 {
		says = append(says, fmt.Sprintf("%d of %d", r.Failed, r.Sent))
	}
	if r.Elsewhere > 0 {
		says = append(says, fmt.Sprintf("elsewhere %d of %d", r.ElsewhereFailed, r.Elsewhere))
	}
	return strings.Join(says, "; ")
}

// errorsOf is a generator's number, with the kinds of its errors.
func errorsOf(c client) string {
	text := fmt.Sprintf("%d of %d", c.Errors, c.Requests)
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(c.Kinds)) {
		kinds = append(kinds, fmt.Sprintf("%s: %d", k, c.Kinds[k]))
	}
	if len(kinds) > 0 {
		text += " (" + strings.Join(kinds, ", ") + ")"
	}
	return text
}
