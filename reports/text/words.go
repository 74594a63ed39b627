// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// width is where lines are broken; indent is where a field's text begins.
const (
	width  = 100
	indent = "             "
)

// field writes a labelled paragraph; an empty text writes nothing.
func (p *page) field(label, text string) {
	if text == "" {
		return
	}
	if label != "" {
		label += ":"
	}
	p.wrap(fmt.Sprintf("  %-10s ", label), text)
}

func (p *page) wrap(head, text string) { p.b.WriteString(Wrap(head, text)) }

// Wrap returns text behind a head, broken into lines of 100 columns, the later
// ones under the first one's text.
func Wrap(head, text string) string {
	var out strings.Builder
	pad := strings.Repeat(" ", utf8.RuneCountInString(head))
	line := head
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			out.WriteString(line + "\n")
			line = pad + word
		default:
			line += " " + word
		}
	}
	return out.String() + line + "\n"
}

// Bounds says in plain words how sure a loss rate is; nil says nothing.
func Bounds(b *spec.Bounds) string {
	if b == nil {
		return ""
	}
	lost := "lost anything"
	if b.Affected > 0 {
		lost = "lost something"
	}
	share, sure := between(b.PerTerminationAtLeast, b.PerTermination)+" of terminations do", true
	switch {
	case b.Affected > 0 && b.Affected == b.Terminations:
		share, sure = "every one did", false
	case b.PerTermination >= 1:
		share, sure = "too few terminations to say how many do", false
	}
	text := fmt.Sprintf("%s of %s %s: %s; %s of %s lost",
		thousands(b.Affected), count(b.Terminations, "termination"), lost, share,
		thousands(b.Lost), count(b.Requests, "request"))
	if b.PerRequest < 1 {
		text, sure = text+": "+between(b.PerRequestAtLeast, b.PerRequest)+" within these terminations", true
	}
	if sure {
		text += " (with 95% confidence)"
	}
	return text
}

// between writes the bounds of a share; a lower one of 0 is none.
func between(least, most float64) string {
	if least <= 0 {
		return "at most " + percent(most)
	}
	return rounded(least, false) + " to " + percent(most)
}

// percent writes a share as an upper bound: rounded up, so that it never claims
// more than was shown.
func percent(share float64) string { return rounded(share, true) }

// rounded writes a share with two significant digits (three from 10% on), rounded up
// or down.
func rounded(share float64, up bool) string {
	p := min(share, 1) * 100
	if p <= 0 || math.IsNaN(p) {
		return "0%"
	}
	digits := 2
	if p >= 10 {
		digits = 3
	}
	decimals := max(0, digits-1-int(math.Floor(math.Log10(p))))
	unit := math.Pow10(decimals)
	// The small step keeps 37.5, which floats hold as 37.50000000001, at 37.5.
	whole := math.Floor(p*unit + 1e-9)
	if up {
		whole = math.Ceil(p*unit - 1e-9)
	}
	s := strconv.FormatFloat(whole/unit, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + "%"
}

// thousands writes 33412 as 33,412.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes "1 node", "3 nodes".
func count(n int, noun string) string {
	if n == 1 || strings.HasPrefix(noun, "only") {
		return thousands(n) + " " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// singular are the nouns that evidence is counted in.
var singular = map[string]string{
	"answers": "answer", "attempts": "attempt", "connections": "connection", "deletions": "deletion", "dials": "dial",
	"endpoints": "endpoint", "entries": "entry", "events": "event", "evictions": "eviction", "hooks": "hook", "kills": "kill",
	"kube-proxies": "kube-proxy", "outages": "outage", "pods": "pod", "pushes": "push", "requests": "request",
	"restarts": "restart", "seconds": "second", "SIGTERMs": "SIGTERM", "states": "state", "streams": "stream", "terminations": "termination",
}

// counted writes evidence: "12 pods seen", "1 pod seen", "evict: 12 pods seen".
func counted(c spec.Count) string {
	of := ""
	if c.Of != "" {
		of = c.Of + ": "
	}
	c.Of = ""
	words := strings.Fields(c.What())
	if c.N == 1 {
		// The first noun is what is counted: "new connections offered to pods".
		for i, w := range words {
			if bare := strings.TrimSuffix(w, ","); singular[bare] != "" {
				words[i] = singular[bare] + w[len(bare):]
				break
			}
		}
	}
	return of + thousands(c.N) + " " + strings.Join(words, " ")
}

// offset writes an instant of the timeline: +12.345s.
func offset(d time.Duration) string { return fmt.Sprintf("%+.3fs", d.Seconds()) }

// signed writes a distance: +12ms, -1.204s.
func signed(d time.Duration) string {
	if d > -time.Second && d < time.Second {
		return fmt.Sprintf("%+dms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%+.3fs", d.Seconds())
}

// took writes how long something took that may have taken no time at all.
func took(d v1alpha1.Duration) string {
	if d == 0 {
		return "0ms"
	}
	return ms(d)
}

// ms writes a latency with three significant digits, or a dash for none.
func ms(d v1alpha1.Duration) string {
	switch v := d.D(); {
	case v == 0:
		return "-"
	case v < 10*time.Millisecond:
		return fmt.Sprintf("%.2fms", float64(v)/1e6)
	case v < time.Second:
		return fmt.Sprintf("%.0fms", float64(v)/1e6)
	default:
		return fmt.Sprintf("%.2fs", v.Seconds())
	}
}

// Basis names what a rule rests on. "project" is the document of a rule for
// which no norm exists.
func Basis(r spec.Ref) string {
	if r.Doc == "project" {
		r.Doc = "our own rule"
	}
	return r.String()
}
