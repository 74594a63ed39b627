// SPDX-License-Identifier: Apache-2.0

// Package text writes a report for a person: first what became of each
// behaviour, then each failure like a good bug report, then what could not be
// shown and why, then how sure the passes are.
package text

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Options say how to write.
type Options struct {
	// Dir is the report's directory, for the paths and commands that are
	// printed. Empty: not known, and none is printed.
	Dir string
	// Colour asks for ANSI colours: see Terminal.
	Colour bool
}

// Terminal says whether colours suit w: it is a terminal, and NO_COLOR is not
// set (https://no-color.org).
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && isatty.IsTerminal(f.Fd())
}

// Write writes the whole report.
func Write(w io.Writer, r *v1alpha1.ConformanceReport, o Options) error {
	p := &page{r: r, o: o}
	p.head()
	p.matrix()
	p.table()
	top := p.b.Len()
	for _, b := range p.of(spec.Fail) {
		p.failure(b)
	}
	for _, v := range []spec.Verdict{spec.Error, spec.Inconclusive, spec.Skipped} {
		judged := p.of(v)
		if v == spec.Inconclusive {
			judged = slices.DeleteFunc(judged, unrecorded)
		}
		for i, b := range judged {
			if i == 0 && v == spec.Inconclusive {
				p.busy(judged)
				p.wrap("", "Inconclusive is no verdict on the system: too little was seen to say. Where the suite was too slow itself, or sent nothing, it needs more CPU, or fewer behaviours at a time. Where too few of something were seen that the system itself does (GOAWAYs of a kind, closes of a kind), the question did not come up: see what it did instead, in the behaviours beside it.")
				p.f("\n")
			}
			p.unsure(b)
		}
		if v == spec.Inconclusive {
			p.unrecorded()
		}
	}
	p.controls()
	p.passes()
	p.scenarios()
	p.egress()
	p.timing()
	p.verdict()
	// The words that were used are explained before their first use.
	used := string(p.b.Bytes()[top:])
	if legend := Legend(used); legend != "" {
		p.b.Truncate(top)
		p.f("%s\n%s\n%s", p.paint(bold, "The words"), legend, used)
	}
	if _, err := w.Write(p.b.Bytes()); err != nil {
		return fmt.Errorf("write the report as text: %w", err)
	}
	return nil
}

// Behaviours writes what Write says of each of a report's behaviours, and nothing else.
func Behaviours(w io.Writer, r *v1alpha1.ConformanceReport, o Options) error {
	p := &page{r: r, o: o}
	for i := range r.Behaviours {
		switch b := &r.Behaviours[i]; b.Verdict {
		case spec.Fail:
			p.failure(b)
		case spec.Pass:
			p.passed(b)
		default:
			p.unsure(b)
		}
	}
	if _, err := w.Write(p.b.Bytes()); err != nil {
		return fmt.Errorf("write what became of the behaviours: %w", err)
	}
	return nil
}

// page is the text as it grows.
type page struct {
	r *v1alpha1.ConformanceReport
	o Options
	b bytes.Buffer
}

func (p *page) f(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

// The colours. All have codes of one length, so that a table whose cells are
// all painted keeps its columns.
const (
	bold   = "01"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "36"
)

func (p *page) paint(colour, s string) string {
	if !p.o.Colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func colourOf(v spec.Verdict) string {
	switch v {
	case spec.Pass:
		return green
	case spec.Fail:
		return red
	case spec.Skipped:
		return blue
	default:
		return yellow
	}
}

func (p *page) of(v spec.Verdict) []*v1alpha1.Behaviour {
	var out []*v1alpha1.Behaviour
	for i := range p.r.Behaviours {
		if b := &p.r.Behaviours[i]; b.Verdict == v {
			out = append(out, b)
		}
	}
	return out
}

func (p *page) head() {
	r := p.r
	who := strings.TrimSpace(r.Implementation.Project + " " + r.Implementation.Version)
	if who == "" {
		who = r.Metadata.Name
	}
	p.f("%s\n", p.paint(bold, "Lastcall: "+who))
	env := []string{"stage " + r.Stage}
	if e := r.Environment; e.Kubernetes != "" {
		env = append(env, "Kubernetes "+e.Kubernetes)
		if n := len(e.Nodes); n > 0 {
			env = append(env, count(n, "node"))
		}
		if e.KubeProxyMode != "" {
			env = append(env, "kube-proxy "+e.KubeProxyMode)
		}
	}
	env = append(env, r.Environment.IPFamilies...)
	if r.Environment.CPUs > 0 {
		env = append(env, count(r.Environment.CPUs, "CPU"))
	}
	if by := r.Environment.TunnelDelay; by > 0 {
		env = append(env, "tunnels "+by.String()+" longer, either way")
	}
	p.f("  %s\n", strings.Join(env, ", "))
	if says := r.Environment.Program; says != "" {
		line := "the program says that it is: " + says
		if v := r.Implementation.Version; !strings.Contains(says, v) {
			line = p.paint(yellow, line+"; the report is made out for "+v)
		}
		p.f("  %s\n", line)
	}
	if why := r.Environment.ProgramUnknown; why != "" {
		p.f("  %s\n", p.paint(yellow, "WARNING: the program did not say which version it is ("+why+"); the report is made out for "+r.Implementation.Version))
	}
	when := "  " + r.Metadata.Date.UTC().Format("2006-01-02 15:04 UTC")
	if r.Metadata.Took > 0 {
		when += ", took " + r.Metadata.Took.D().Round(time.Second).String()
	}
	if r.Suite.Version != "" {
		when += ", lastcall " + r.Suite.Version
	}
	if len(r.Suite.Revision) >= 12 {
		when += " (" + r.Suite.Revision[:12] + ")"
	}
	p.f("%s\n", when)
	if l := r.Environment.Load; l != nil {
		if l.Stolen >= 0.02 {
			p.f("  %s\n", p.paint(yellow, fmt.Sprintf("%.0f%% of this machine's CPU time was taken by others on its host: what is inconclusive may be for that", 100*l.Stolen)))
		}
		if l.Speed > 0 {
			p.f("  a core of this machine did %.2f of what recordings are priced by: fewer of them ran side by side\n", l.Speed)
		}
	}
	prop := "  P (propagation window) " + r.Settings.P.String()
	m := r.Propagation
	if m != nil {
		prop += fmt.Sprintf("; measured: median %s, worst %s, of %s", took(m.Median), took(m.Worst), count(m.N, "termination"))
	}
	p.f("%s\n", prop)
	if m != nil && m.Worst > r.Settings.P {
		see := ""
		if p.judged(prefersReady) {
			see = ": see " + prefersReady
		}
		p.f("  %s\n", p.paint(yellow, "the worst is longer than P"+see+"; --p sets P"))
	}
	if line := Suspects(p.r); line != "" {
		p.f("%s\n", p.paint(yellow, strings.TrimSuffix(Wrap("  ", line), "\n")))
	}
	if line := Killed(p.r); line != "" {
		p.f("%s\n", p.paint(yellow, strings.TrimSuffix(Wrap("  ", line), "\n")))
	}
	if r.Settings.Fault != "" {
		p.f("  %s\n", p.paint(yellow, "a part of the reference system was broken on purpose: --fault="+string(r.Settings.Fault)))
	}
	p.f("\n")
}

// prefersReady is the behaviour that judges the propagation.
const prefersReady = "endpoints.prefers-ready"

// judged says whether the report has more to say of a behaviour than that it was skipped.
func (p *page) judged(id string) bool {
	return slices.ContainsFunc(p.r.Behaviours, func(b v1alpha1.Behaviour) bool { return b.ID == id && b.Verdict != spec.Skipped })
}

func (p *page) table() {
	if len(p.r.Behaviours) == 0 {
		p.f("No behaviour was judged.\n\n")
		return
	}
	t := tabwriter.NewWriter(&p.b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "%s\tLEVEL\tBEHAVIOUR\tIN SHORT\n", p.paint(bold, "VERDICT"))
	for i := range p.r.Behaviours {
		b := &p.r.Behaviours[i]
		word := Word(b)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.paint(colourOf(b.Verdict), word), b.Level, b.Name(), short(b))
	}
	t.Flush()
	p.f("\n")
}

// Word is what became of a behaviour, as tables have it.
func Word(b *v1alpha1.Behaviour) string {
	word := b.Verdict.String()
	if b.Warning {
		word = "Warning"
	}
	if b.Known != nil {
		word += ", known"
	}
	return word
}

// short is a behaviour's row in the table, at most 72 runes.
func short(b *v1alpha1.Behaviour) string {
	s := b.Line()
	if runes := []rune(s); len(runes) > 72 {
		s = strings.TrimRight(string(runes[:69]), " ,;:") + "..."
	}
	return s
}

func (p *page) title(b *v1alpha1.Behaviour) {
	word := strings.ToUpper(Word(b))
	p.f("%s\n", p.paint(colourOf(b.Verdict), fmt.Sprintf("--- %s %s (%s)", word, b.Name(), b.Level)))
}

func (p *page) failure(b *v1alpha1.Behaviour) {
	p.title(b)
	if b.Known != nil {
		p.field("Known", b.Known.String())
	}
	p.rule(b)
	for i := range b.Findings {
		f := &b.Findings[i]
		if f.Verdict != spec.Fail {
			continue
		}
		p.f("\n")
		p.field("Check", f.Check)
		p.field("Accepted", f.Expected)
		p.field("Seen", f.Actual)
		p.field("When", p.when(b, f))
		p.field("Where", p.where(b, f))
		p.culprits(b, f)
		p.field("Evidence", evidence(f.Evidence))
		p.field("How sure", Bounds(f.Bounds))
		if f.Cause != "" {
			p.field("Likely", f.Cause)
		}
	}
	for _, left := range b.LeftOut() {
		p.f("\n")
		p.field("Check", left)
	}
	p.f("\n")
	if p.ownPods(b) {
		p.field("Whose", "The pods are Lastcall's own, and keep this rule on a healthy cluster. Look first at what ends them and what carries their traffic: the kubelet, the runtime, the CNI plugin, kube-proxy. What follows is for pods of yours.")
	}
	p.field("Fix", Fix(b))
	p.look(b)
	p.f("\n")
}

// Unserved is what a behaviour that failed demands first, where what the system claims was never
// there: its own rule was not asked yet. "": it was.
func Unserved(b *v1alpha1.Behaviour) string {
	if !b.NeverServed() {
		return ""
	}
	return "What a system's file claims is served. This is not, so that nothing could be asked of: " + b.Title
}

// Fix is what to do about a behaviour that failed.
func Fix(b *v1alpha1.Behaviour) string {
	if b.NeverServed() {
		return "Look at what answers at the port that the file names for it, and at its configuration there; or take the feature out of the file."
	}
	return b.Fix
}

// rule is what a behaviour that failed demands, and why.
func (p *page) rule(b *v1alpha1.Behaviour) {
	if first := Unserved(b); first != "" {
		p.field("Rule", first)
		return
	}
	p.field("Rule", b.Title)
	for _, ref := range b.Refs {
		p.field("", fmt.Sprintf("%s: %q", Basis(ref), ref.Quote))
		if ref.URL != "" {
			p.field("", ref.URL)
		}
	}
	p.field("Why", b.Why)
}

// ownPods says whether a failure is told as one of an app, and that app is the suite's
// own, unbroken, on a cluster: then the cluster is what is judged.
func (p *page) ownPods(b *v1alpha1.Behaviour) bool {
	ofApps := strings.HasPrefix(b.ID, "pod.") || b.ID == "rollout.zero-failed"
	return ofApps && p.r.Stage != "host" && p.r.Settings.Fault == "" && p.r.Implementation.Project == "reference"
}

func (p *page) unsure(b *v1alpha1.Behaviour) {
	p.title(b)
	p.field("Rule", b.Title)
	p.field("Reason", b.Reason)
	p.field("Machine", p.machine(b))
	for i := range b.Findings {
		f := &b.Findings[i]
		if f.Verdict == spec.Pass {
			continue
		}
		check := f.Check
		if f.Actual != b.Reason {
			check += ": " + f.Actual
		}
		p.field("Check", check)
		for _, c := range f.Evidence {
			// Most checks say it themselves.
			if !c.Met() && !strings.Contains(f.Actual, c.What()) {
				p.field("", fmt.Sprintf("too little evidence: %s, needs %s", counted(c), thousands(c.Floor)))
			}
		}
		p.culprits(b, f)
	}
	if b.Verdict != spec.Skipped {
		p.look(b)
	}
	p.f("\n")
}

func unrecorded(b *v1alpha1.Behaviour) bool { return !b.Recorded }

// unrecorded lists the behaviours whose turn never came: all have the same to say.
func (p *page) unrecorded() {
	var ids []string
	for _, b := range p.of(spec.Inconclusive) {
		if unrecorded(b) {
			ids = append(ids, b.Name())
		}
	}
	if len(ids) == 0 {
		return
	}
	p.f("%s\n", p.paint(yellow, "--- NOT RECORDED, and nothing can be said: "+count(len(ids), "behaviour")))
	p.wrap("  ", strings.Join(ids, ", "))
	p.f("\n")
}

// busy says once what to do about what a busy machine left open, and which behaviours that
// are.
func (p *page) busy(unsure []*v1alpha1.Behaviour) {
	ids := map[string][]string{} // by recording
	n := 0
	for _, b := range unsure {
		if s := p.scenario(b.Scenario); s != nil && s.Timing.Busy != "" {
			ids[b.Scenario] = append(ids[b.Scenario], b.Name())
			n++
		}
	}
	if n == 0 {
		return
	}
	p.f("%s\n", p.paint(yellow, fmt.Sprintf("--- THE MACHINE WAS BUSY, and %s may be inconclusive for that", count(n, "behaviour"))))
	p.wrap("  ", "Run them again when it is calm (--wait-idle 10m waits for that), on one with more cores, or fewer of them at a time.")
	for _, name := range slices.Sorted(maps.Keys(ids)) {
		p.wrap("  ", fmt.Sprintf("%s: %s: %s", name, p.scenario(name).Timing.Busy, strings.Join(ids[name], ", ")))
	}
	p.f("\n")
}

// machine says what a recording that left a doubt lacked of its machine.
func (p *page) machine(b *v1alpha1.Behaviour) string {
	if b.Verdict != spec.Inconclusive {
		return ""
	}
	s := p.scenario(b.Scenario)
	if s == nil {
		return ""
	}
	var late, all int
	for _, x := range s.Streams {
		late, all = late+x.Saturated, all+x.Attempts
	}
	var says []string
	if late > 0 {
		says = append(says, fmt.Sprintf("%s of this recording's %s were sent late, by the suite's own client", thousands(late), count(all, "request")))
	}
	if s.Timing.Stolen >= 0.01 {
		says = append(says, fmt.Sprintf("%.0f%% of the CPU was taken by others on its host in the worst second", 100*s.Timing.Stolen))
	}
	return strings.Join(says, "; ")
}

// when says in which window the rule was broken, and how the first culprit
// lies to the D of its pod.
func (p *page) when(b *v1alpha1.Behaviour, f *spec.Finding) string {
	s := fmt.Sprintf("judged from %s to %s (from the recording's start)", offset(f.Window.From), offset(f.Window.To))
	if len(f.Culprits) == 0 {
		return s
	}
	first := slices.MinFunc(f.Culprits, func(a, b spec.Culprit) int { return int(a.At - b.At) })
	s += "; first at " + offset(first.At)
	if rel := p.relative(b, first); rel != "" {
		s += ", " + rel
	}
	return s
}

// relative places a culprit against the clock of its own termination:
// "D+12ms of echo-1".
func (p *page) relative(b *v1alpha1.Behaviour, c spec.Culprit) string {
	t := p.termination(b.Scenario, c.Target)
	switch {
	case t == nil:
		return ""
	case t.Drain != nil:
		return "D" + signed(c.At-t.Drain.At.D()) + " of " + t.Pod
	case t.Deletion != nil:
		return "T_del" + signed(c.At-t.Deletion.At.D()) + " of " + t.Pod
	}
	return ""
}

func (p *page) termination(scenario, target string) *v1alpha1.Termination {
	if target == "" {
		return nil
	}
	s := p.scenario(scenario)
	if s == nil {
		return nil
	}
	for i := range s.Terminations {
		if t := &s.Terminations[i]; t.Pod == target || t.UID == target {
			return t
		}
	}
	return nil
}

// scenario is nil where there is none of that name.
func (p *page) scenario(name string) *v1alpha1.Scenario {
	i := slices.IndexFunc(p.r.Scenarios, func(s v1alpha1.Scenario) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &p.r.Scenarios[i]
}

// where lists the instances that the culprits point at, with their nodes.
func (p *page) where(b *v1alpha1.Behaviour, f *spec.Finding) string {
	var names []string
	for _, c := range f.Culprits {
		name := c.Target
		if t := p.termination(b.Scenario, c.Target); t != nil {
			name = t.Pod
			if t.Node != "" {
				name += " on " + t.Node
			}
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// shown is how many culprits are printed: the report holds them all.
const shown = 8

// sinceD is how long after D, as some checks say it at the head of a culprit.
var sinceD = regexp.MustCompile(`^D [+-] [0-9.a-zµ]+: `)

func (p *page) culprits(b *v1alpha1.Behaviour, f *spec.Finding) {
	if len(f.Culprits) == 0 {
		return
	}
	n, all := min(shown, len(f.Culprits)), len(f.Culprits)+f.MoreCulprits
	// More than the requests that failed, where one breaks the rule twice.
	how := ":"
	if n < all {
		how = fmt.Sprintf("; the first %d:", n)
	}
	p.field("Culprits", count(all, "observation")+" against the rule"+how)
	t := tabwriter.NewWriter(&p.b, 0, 8, 2, ' ', 0)
	first := slices.Clone(f.Culprits)
	slices.SortStableFunc(first, func(a, b spec.Culprit) int { return cmp.Compare(a.At, b.At) })
	for _, c := range first[:n] {
		rel, text := p.relative(b, c), c.Text
		if rel == "" {
			rel = c.Target
		} else {
			text = sinceD.ReplaceAllString(text, "") // it stands before it
		}
		fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\n", indent, offset(c.At), rel, c.ID, text)
	}
	t.Flush()
}

func evidence(cs []spec.Count) string {
	var out []string
	for _, c := range cs {
		s := counted(c)
		switch {
		case c.Floor == 0:
		case c.Met():
			s += " (at least " + thousands(c.Floor) + " needed)"
		default:
			s += " (too few: " + thousands(c.Floor) + " needed)"
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

// look says where the evidence is and how to go on.
func (p *page) look(b *v1alpha1.Behaviour) {
	if p.o.Dir == "" {
		return
	}
	if s := p.scenario(b.Scenario); s != nil {
		if s.History != "" {
			p.field("History", filepath.Join(p.o.Dir, s.History))
		}
		if s.Picture != "" {
			p.field("Picture", filepath.Join(p.o.Dir, s.Picture))
		}
	}
	p.field("Explain", "lastcall explain "+b.ID)
}

func (p *page) controls() {
	bad := false
	for _, c := range p.r.Controls {
		bad = bad || (c.Verdict != spec.Pass && c.Verdict != spec.Skipped)
	}
	if !bad {
		if n := len(p.r.Controls); n > 0 {
			but := ""
			if slices.ContainsFunc(p.r.Behaviours, func(b v1alpha1.Behaviour) bool { return b.NeverServed() }) {
				but = ", apart from what is claimed and was never served,"
			}
			p.f("Controls: the baseline was clean%s and every abrupt kill was seen (%s).\n\n", but, count(n, "control"))
		}
		return
	}
	p.f("%s\n", p.paint(yellow, "--- CONTROLS: the suite could not see everything that it had to"))
	for _, c := range p.r.Controls {
		if c.Verdict != spec.Pass && c.Verdict != spec.Skipped {
			failed := ""
			if c.Attempts > 0 {
				failed = fmt.Sprintf("%s of %s failed. ", thousands(c.Failed), count(c.Attempts, "attempt"))
			}
			p.field(c.Verdict.String(), strings.Join(slices.DeleteFunc([]string{c.Name, c.Client, c.Path}, func(s string) bool { return s == "" }), ", ")+
				": "+failed+c.Reason)
		}
	}
	p.f("\n")
}

func (p *page) passes() {
	ok := p.of(spec.Pass)
	if len(ok) == 0 {
		return
	}
	p.f("%s\n", p.paint(bold, "What was passed, and how sure that is"))
	for _, b := range ok {
		p.passed(b)
	}
	p.f("\n")
}

func (p *page) passed(b *v1alpha1.Behaviour) {
	p.f("  %s: %s\n", p.paint(green, b.Name()), b.Title)
	for i := range b.Findings {
		f := &b.Findings[i]
		for _, s := range []string{evidence(f.Evidence), Bounds(f.Bounds)} {
			if s != "" {
				p.wrap("      ", f.Check+": "+s)
			}
		}
	}
	for _, s := range b.LeftOut() {
		p.wrap("      ", s)
	}
}

func (p *page) scenarios() {
	var unrecorded []string
	for i := range p.r.Scenarios {
		s := &p.r.Scenarios[i]
		if s.History == "" && s.Error == "" {
			unrecorded = append(unrecorded, s.Name)
			continue
		}
		p.f("%s: %s\n", p.paint(bold, "Recording "+s.Name), s.Disruption)
		if s.Fault != "" && s.Fault != p.r.Settings.Fault {
			p.field("Fault", string(s.Fault))
		}
		if x := s.Timing; x.Wall > 0 {
			line := "took " + x.Wall.D().Round(time.Second).String()
			if x.Gate > 0 {
				line += fmt.Sprintf(", %s of them before the disruption", x.Gate.D().Round(time.Second))
			}
			// One that was stopped early tells of no CPU.
			if x.CPU > 0 {
				line += fmt.Sprintf("; its clients and backends used %s of CPU", x.CPU.D().Round(100*time.Millisecond))
			}
			p.f("  %s\n", line)
			p.baseline(x)
		}
		if s.Error != "" {
			p.field("Broken", s.Error)
		}
		p.clocks(s)
		for _, f := range s.FailedSteps {
			p.wrap("  step failed: ", failedStep(f))
		}
		for _, k := range s.KilledForMemory {
			line := who(k) + ", at " + took(k.At)
			if k.Times > 1 {
				line += " and later, " + count(k.Times, "time") + " in all"
			}
			p.wrap("  killed for memory: ", line)
		}
		p.streams(s)
		if l := s.Ledger; l != nil {
			word := "agrees with the clients on every request"
			if !l.Agrees {
				word = "does NOT agree with the clients"
			}
			p.f("  ledger %s: %s begun, %s done, %s lost, %s run twice, %s unmatched\n", word,
				thousands(l.Begun), thousands(l.Done), thousands(l.Lost), thousands(l.Duplicated), thousands(l.Unmatched))
		}
		for i := range s.Pressure {
			for _, line := range Pressure(&s.Pressure[i]) {
				p.wrap("  pressure ", line)
			}
		}
		for _, n := range s.Notes {
			p.wrap("  note: ", n)
		}
		p.f("\n")
	}
	if len(unrecorded) > 0 {
		p.wrap("Not recorded: ", strings.Join(unrecorded, ", "))
		p.f("\n")
	}
}

// baseline says what the machine did before the disruption, and what was made of that.
func (p *page) baseline(x v1alpha1.ScenarioTiming) {
	var says []string
	if x.Used > 0 {
		says = append(says, fmt.Sprintf("%.1f cores of the machine in use before the disruption", x.Used))
	}
	if x.P50 > 0 {
		says = append(says, "half of the short requests answered within "+took(x.P50))
	}
	if x.Lowered > 0 {
		says = append(says, fmt.Sprintf("the streams at %.0f%% of their rates, for want of cores", 100*x.Lowered))
	}
	if x.Beyond > 0 {
		says = append(says, fmt.Sprintf("it asks for %.1f times the CPU that there is for it", x.Beyond))
	}
	if len(says) > 0 {
		p.wrap("  ", strings.Join(says, "; "))
	}
	if x.Busy != "" {
		p.wrap("  busy: ", x.Busy)
	}
	for _, a := range x.Before {
		p.wrap("  before: ", fmt.Sprintf("recorded from %s to %s on a busy machine (%s), which proved nothing: %s (kept in %s)",
			a.Recorded.From.Format(time.TimeOnly), a.Recorded.To.Format(time.TimeOnly), a.Busy, a.Why, a.History))
	}
}

// clocks prints the terminations, each against its own T_del: that is how
// they can be compared.
func (p *page) clocks(s *v1alpha1.Scenario) {
	if len(s.Terminations) == 0 {
		return
	}
	t := tabwriter.NewWriter(&p.b, 0, 8, 2, ' ', 0)
	gaps := false
	fmt.Fprintf(t, "  terminated\tnode\tT_del\tD\tT_endpoint\tT_lastnew\tT_exit\tT_net\tK\texit code\n")
	for i := range s.Terminations {
		x := &s.Terminations[i]
		cells := []string{x.Pod, x.Node, instant(x.Deletion, nil)}
		kill := x.Kill
		if x.Deletion == nil {
			kill = nil // a node's shutdown keeps its own time
		}
		for _, in := range []*v1alpha1.Instant{x.Drain, x.Endpoint, x.LastNew, x.Exit, x.Net, kill} {
			cells = append(cells, instant(in, x.Deletion))
		}
		code := unseen
		if x.ExitCode != nil {
			code = fmt.Sprint(*x.ExitCode)
		}
		cells = append(cells, code)
		gaps = gaps || slices.Contains(cells, unseen)
		fmt.Fprintf(t, "  %s\n", strings.Join(cells, "\t"))
	}
	t.Flush()
	note := "T_del counts from the recording's start, the other instants from T_del where that is known"
	if gaps {
		note += "; " + unseen + ": nobody saw it"
	}
	p.wrap("  ", note)
}

// unseen stands for what nobody saw.
const unseen = "?"

func instant(in, zero *v1alpha1.Instant) string {
	switch {
	case in == nil:
		return unseen
	case zero == nil:
		return offset(in.At.D())
	}
	return signed(in.At.D() - zero.At.D())
}

func (p *page) streams(s *v1alpha1.Scenario) {
	if len(s.Streams) == 0 {
		return
	}
	t := tabwriter.NewWriter(&p.b, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "  stream\tattempts\tfailed\tsent late\tp50\tp99\toutcomes\n")
	for _, x := range s.Streams {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Name, thousands(x.Attempts), thousands(x.Failed), thousands(x.Saturated), ms(x.P50), ms(x.P99), outcomes(x.Outcomes))
	}
	t.Flush()
}

func outcomes(m map[string]int) string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = name + " " + thousands(m[name])
	}
	return strings.Join(names, ", ")
}

func (p *page) egress() {
	e := p.r.Egress
	if e == nil {
		return
	}
	p.f("%s\n", p.paint(bold, "No test traffic left this machine"))
	p.f("  %s to addresses of deleted pods ended as 'no route to host' (%s from the same node, %s from another)\n",
		count(e.NoRouteSameNode+e.NoRouteOtherNode, "dial"), thousands(e.NoRouteSameNode), thousands(e.NoRouteOtherNode))
	p.wrap("  ", "a dial that no pod route caught was stopped by the host's own reject rule, whose counter rose: "+
		guard("IPv4", e.GuardV4)+", "+guard("IPv6", e.GuardV6))
	p.f("  of the cluster's traffic a capture saw %s on %s, and %s on the cluster's bridge\n", count(e.OuterPackets, "packet"), e.OuterInterface, thousands(e.BridgePackets))
	for _, n := range e.Notes {
		p.wrap("  note: ", n)
	}
	p.f("\n")
}

func guard(family string, c v1alpha1.GuardCounter) string {
	return fmt.Sprintf("%s from %d to %d", family, c.Before, c.After)
}

func (p *page) verdict() {
	r := p.r
	for _, e := range r.Errors {
		p.wrap(p.paint(yellow, "Error")+": ", e)
	}
	for _, d := range r.Outlived() {
		p.wrap(p.paint(yellow, "Known")+": ", Outlived(d))
	}
	s := r.Summary
	p.f("%s: %d passed, %d failed", p.paint(colourOf(r.Verdict), strings.ToUpper(r.Verdict.String())), s.Passed, s.Failed)
	if s.Warnings > 0 {
		p.f(" (%s)", count(s.Warnings, "only a warning"))
	}
	if s.Known > 0 {
		p.f(" (%s known)", thousands(s.Known))
	}
	p.f(", %d inconclusive, %d error, %d skipped", s.Inconclusive, s.Errors, s.Skipped)
	if n := len(r.Errors); n > 0 {
		p.f(", %s of the run itself", count(n, "error"))
	}
	p.f(" (exit code %d)\n", r.ExitCode)
	if line := Profiles(r); line != "" {
		p.f("Profiles: %s\n", line)
	}
	if p.o.Dir != "" {
		p.f("Report: %s\n", filepath.Join(p.o.Dir, v1alpha1.File))
		p.f("To judge the recordings again, with no cluster: lastcall report rejudge %s\n", p.o.Dir)
	}
}
