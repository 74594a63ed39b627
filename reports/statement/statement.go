// SPDX-License-Identifier: Apache-2.0

// Package statement writes what a vendor submits: what a report says of a
// system, profile by profile, what keeps it from being conformant, and how
// anybody makes the report again. It is a function of the report alone.
package statement

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/markdown"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// File is the statement's name where it is submitted, and Reports the folder
// that submissions go to.
const (
	File    = "statement.md"
	Reports = "docs/findings/reports"
)

// Write writes the statement. What is stated is worked out anew, so that it
// can't say anything else than the report's behaviours do.
func Write(w io.Writer, report *v1alpha1.ConformanceReport) error {
	r := *report
	r.Behaviours = slices.Clone(report.Behaviours)
	r.Conclude()
	switch {
	case r.Matrix != nil:
		return errors.New("this run was made with --matrix: it proves the suite, and there is nothing to state of a system")
	case len(r.Profiles) == 0:
		return errors.New("this report has no profiles: it is of an earlier version. `lastcall report rejudge DIR` writes them, where the recordings are kept")
	}
	p := &page{r: &r}
	p.head()
	p.profiles()
	p.short()
	p.failed()
	p.inPart()
	p.unclaimed()
	p.again()
	if _, err := w.Write(p.b.Bytes()); err != nil {
		return fmt.Errorf("write the statement: %w", err)
	}
	return nil
}

// page is the statement as it grows.
type page struct {
	r *v1alpha1.ConformanceReport
	b bytes.Buffer
}

func (p *page) f(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

func (p *page) head() {
	r, i, e := p.r, p.r.Implementation, p.r.Environment
	p.f("# Lastcall: %s %s\n\n| | |\n|---|---|\n", markdown.Escape(i.Project), markdown.Escape(i.Version))
	row := func(what string, parts ...string) {
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		if len(parts) > 0 {
			p.f("| %s | %s |\n", what, markdown.Escape(strings.Join(parts, ", ")))
		}
	}
	row("implementation", i.Project+" "+i.Version, i.Organization, i.URL)
	row("it says that it is", e.Program)
	row("it did not say which version it is", e.ProgramUnknown)
	row("who answers for it", i.Contact...)
	row("stage", r.Stage)
	kubernetes := cmp.Or(e.Kubernetes, "none: processes on a host")
	proxy := ""
	if e.KubeProxyMode != "" {
		proxy = "kube-proxy " + e.KubeProxyMode
	}
	row("Kubernetes", append([]string{kubernetes, proxy}, e.IPFamilies...)...)
	row("date", r.Metadata.Date.UTC().Format("2006-01-02"))
	suite := "lastcall " + r.Suite.Version
	if r.Suite.Revision != "" {
		suite += " (" + r.Suite.Revision + ")"
	}
	if r.Suite.Modified {
		suite += ", with changes that are in no commit"
	}
	row("suite", suite)
	size, lag, far := "", "", ""
	if r.Settings.Profile != "" {
		size = "size " + r.Settings.Profile
	}
	if r.Settings.Lag > 0 {
		lag = "the stage's balancer follows within " + r.Settings.Lag.String()
	}
	if e.TunnelDelay > 0 {
		far = "tunnels take " + e.TunnelDelay.String() + " longer, either way"
	}
	row("settings", size, "P (propagation window) "+r.Settings.P.String(), lag, far)
	row("the run", fmt.Sprintf("%s, exit code %d", r.Verdict, r.ExitCode))
}

func (p *page) profiles() {
	p.f("\n## Profiles\n\n| profile | behaviours | result | MUST | SHOULD | MAY |\n|---|---|---|---|---|---|\n")
	for _, x := range p.r.Profiles {
		p.f("| %s | %s | **%s** | %s | %s | %s |\n", text.ProfileName(x.Name), markdown.Escape(x.Name.Covers()), x.Result, tally(x.Must), tally(x.Should), tally(x.May))
	}
	p.f(`
Conformant: every MUST passed, but for those that need a feature which the system does not claim; and
one passed at least. Nonconformant: a MUST failed, also where that is a known deviation. Partial: no
MUST failed, and not all of them were shown to pass. Unjudged: no MUST failed, and none passed.
A SHOULD or a MAY changes no result.
`)
}

// tally is a count in words.
func tally(t v1alpha1.Tally) string {
	if t.All() == 0 {
		return "none"
	}
	out := []string{fmt.Sprintf("%d of %d passed", t.Passed, t.Owed())}
	say := func(n int, what string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, what))
		}
	}
	failed := "failed"
	if t.Known > 0 {
		failed = fmt.Sprintf("failed (%d known)", t.Known)
	}
	say(t.Failed, failed)
	say(t.Inconclusive, "inconclusive")
	say(t.Errors, "error")
	say(t.Skipped, "skipped")
	say(t.Unselected, "not selected")
	say(t.Unclaimed, "not claimed")
	return strings.Join(out, ", ")
}

// short says what each profile is short of.
func (p *page) short() {
	begun := false
	for i := range p.r.Profiles {
		x := &p.r.Profiles[i]
		if x.Result == v1alpha1.Conformant {
			continue
		}
		if !begun {
			begun = true
			p.f("\n## What keeps a profile from being conformant\n")
		}
		p.f("\n%s, %s:\n\n", text.ProfileName(x.Name), x.Result)
		must := func(of spec.Verdict) func(*v1alpha1.Behaviour) bool {
			return func(b *v1alpha1.Behaviour) bool {
				return b.Profile == x.Name && b.Level == spec.Must && b.Verdict == of && b.Skip != spec.Unclaimed
			}
		}
		if ids := p.ids(must(spec.Fail)); len(ids) > 0 {
			p.f("- failed: %s\n", coded(ids))
		}
		for _, v := range []spec.Verdict{spec.Error, spec.Inconclusive, spec.Skipped} {
			p.grouped(strings.ToLower(v.String()), must(v))
		}
		var open []string
		for _, u := range p.r.Unselected {
			if u.Profile == x.Name && u.Level == spec.Must {
				open = append(open, u.ID)
			}
		}
		if len(open) > 0 {
			p.f("- not selected in this run: %s\n", coded(open))
		}
		if x.Must.Owed() == 0 {
			p.f("- the system claims none of the features that a MUST needs\n")
		}
	}
	if doubts := p.r.Doubts(); len(doubts) > 0 {
		p.f("\nOf the run as a whole, so that no profile is more than partial:\n\n")
		for _, d := range doubts {
			p.f("- %s\n", markdown.Escape(d))
		}
	}
}

// ids are the behaviours of some kind.
func (p *page) ids(of func(*v1alpha1.Behaviour) bool) []string {
	var out []string
	for i := range p.r.Behaviours {
		if b := &p.r.Behaviours[i]; of(b) {
			out = append(out, b.Name())
		}
	}
	return out
}

// grouped tells behaviours by their reasons, a line each.
func (p *page) grouped(what string, of func(*v1alpha1.Behaviour) bool) {
	var reasons []string
	for i := range p.r.Behaviours {
		if b := &p.r.Behaviours[i]; of(b) && !slices.Contains(reasons, b.Line()) {
			reasons = append(reasons, b.Line())
		}
	}
	for _, why := range reasons {
		p.f("- %s: %s: %s\n", what, coded(p.ids(func(b *v1alpha1.Behaviour) bool { return of(b) && b.Line() == why })), markdown.Escape(why))
	}
}

func coded(ids []string) string { return "`" + strings.Join(ids, "`, `") + "`" }

// failed are the rules that were broken: what is known first, because its
// reasons are the vendor's own word.
func (p *page) failed() {
	for _, part := range []struct {
		head, words string
		known       bool
	}{
		{"Known deviations", "They failed, as the system's own file says that they do. They don't change the run's exit code, and a MUST\namong them keeps its profile nonconformant all the same.", true},
		{"Failed", "", false},
	} {
		begun := false
		for i := range p.r.Behaviours {
			b := &p.r.Behaviours[i]
			if b.Verdict != spec.Fail || b.Level == spec.Control || (b.Known != nil) != part.known {
				continue
			}
			if !begun {
				begun = true
				p.f("\n## %s\n\n", part.head)
				if part.words != "" {
					p.f("%s\n\n", part.words)
				}
				reason, line := "", ""
				if part.known {
					reason, line = " reason |", "---|"
				}
				p.f("| behaviour | level | rule | seen |%s\n|---|---|---|---|%s\n", reason, line)
			}
			p.f("| `%s` | %s | %s | %s |", b.Name(), b.Level, markdown.Escape(b.Title), markdown.Escape(b.Line()))
			if b.Known != nil {
				p.f(" %s |", markdown.Escape(b.Known.String()))
			}
			p.f("\n")
		}
	}
	for i, d := range p.r.Outlived() {
		if i == 0 {
			p.f("\n## Known deviations that passed\n\n")
		}
		p.f("- %s\n", markdown.Escape(text.Outlived(d)))
	}
}

// inPart are the rules that passed by a part of their checks, because the system does not show what
// the others take.
func (p *page) inPart() {
	begun := false
	for i := range p.r.Behaviours {
		b := &p.r.Behaviours[i]
		if b.Verdict != spec.Pass {
			continue
		}
		for _, left := range b.LeftOut() {
			if !begun {
				begun = true
				p.f("\n## Passed by a part of their checks\n\n")
			}
			p.f("- `%s`: %s\n", b.Name(), markdown.Escape(left))
		}
	}
}

// unclaimed are the rules of every level that were left out in the system's favour.
func (p *page) unclaimed() {
	of := func(b *v1alpha1.Behaviour) bool { return b.Verdict == spec.Skipped && b.Skip == spec.Unclaimed }
	if len(p.ids(of)) == 0 {
		return
	}
	p.f("\n## Not claimed\n\n")
	p.grouped("not asked", of)
}

// again says how anybody makes such a report.
func (p *page) again() {
	i := p.r.Implementation
	p.f("\n## How to make this report again\n\nIn %s/%s/%s lie this statement and what it is about. With the suite at the\nversion above (`make build`) and the program that the report names:\n\n```\n%s\nlastcall report compare report.yaml again\n```\n",
		Reports, folder(i.Project), folder(i.Version), Command(p.r))
}

// unfit is what a folder's name does without.
var unfit = regexp.MustCompile(`[^a-z0-9.]+`)

func folder(s string) string {
	return cmp.Or(strings.Trim(unfit.ReplaceAllString(strings.ToLower(s), "-"), "-."), "unnamed")
}

// plain is a word that no shell takes apart.
var plain = regexp.MustCompile(`^[A-Za-z0-9.,:/_@%+-]+$`)

// Command makes such a report again, where its files are. Of a cluster that the
// suite did not make, its owner knows how to come by another.
func Command(r *v1alpha1.ConformanceReport) string {
	out := []string{"lastcall", "run", "--stage", r.Stage}
	add := func(flag, value string) {
		if value == "" {
			return
		}
		if !plain.MatchString(value) {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		out = append(out, "--"+flag, value)
	}
	yes := func(flag string, is bool) {
		if is {
			out = append(out, "--"+flag)
		}
	}
	if r.Settings.System != "" {
		add("system", "system.yaml")
	}
	switch r.Stage {
	case "kind":
		add("k8s", minor(r.Environment.Kubernetes))
		if n := len(r.Environment.Nodes); n > 0 {
			add("nodes", fmt.Sprint(n))
		}
		add("kube-proxy", r.Environment.KubeProxyMode)
		add("ip", family(r.Environment.IPFamilies))
	case "cluster":
		add("kubeconfig", "KUBECONFIG")
	case "host":
		add("ip", family(r.Environment.IPFamilies))
	}
	add("profile", r.Settings.Profile)
	add("p", r.Settings.P.String())
	if r.Settings.Lag > 0 {
		add("lag", r.Settings.Lag.String())
	}
	if r.Environment.TunnelDelay > 0 {
		add("tunnel-delay", r.Environment.TunnelDelay.String())
	}
	add("labels", strings.Join(r.Settings.Labels, ","))
	add("behaviours", strings.Join(r.Settings.Selected, ","))
	add("fault", string(r.Settings.Fault))
	yes("isolate", r.Settings.Isolate)
	yes("strict", r.Settings.Strict)
	add("out", "again")
	return strings.Join(out, " ")
}

// minor is v1.36.1 as --k8s has it.
func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// family is what --ip calls a cluster's.
func family(of []string) string {
	if len(of) > 1 {
		return "dual"
	}
	return strings.ToLower(strings.Join(of, ""))
}
