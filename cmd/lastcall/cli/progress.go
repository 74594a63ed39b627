// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// tick is how often a terminal's live line is drawn again.
const tick = time.Second

// progress tells a person what is going on. In a pipe each step is a line; on
// a terminal the last line is alive.
type progress struct {
	out   io.Writer
	begun time.Time
	// width is the terminal's, 0 in a pipe.
	width int
	stop  chan struct{}
	ended sync.WaitGroup

	mu   sync.Mutex
	line string    // what is going on
	at   time.Time // since when
	last behaviour.Progress
}

// newProgress begins to tell.
func newProgress(out io.Writer) *progress {
	p := &progress{out: out, begun: time.Now(), stop: make(chan struct{})}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.width = 80
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			p.width = w
		}
		p.ended.Go(p.live)
	}
	return p
}

// plan says what will be recorded, before it begins.
func (p *progress) plan(scenarios []behaviour.Scenario, takes time.Duration, dir string) {
	p.print(fmt.Sprintf("%s, about %s; the report goes to %s", text.Count(len(scenarios), "recording"), about(takes), dir))
	for i, s := range scenarios {
		broken := ""
		if s.Fault != "" {
			broken = " under " + string(s.Fault)
		}
		p.print(fmt.Sprintf("  %d. %s: %s%s (%s)", i+1, s.Name, behaviour.InWords(s.Disrupt), broken, strings.Join(s.Behaviours, ", ")))
		if s.Beyond > 0 {
			p.print(fmt.Sprintf("     asks for %.1f times the CPU that this machine has for it: it may prove nothing here", s.Beyond))
		}
	}
}

// say tells a step of the preparations.
func (p *progress) say(what string) {
	p.mu.Lock()
	p.last = behaviour.Progress{}
	p.mu.Unlock()
	p.step(what)
}

// progress tells a step of a recording.
func (p *progress) progress(b behaviour.Progress) {
	p.mu.Lock()
	p.last = b
	p.mu.Unlock()
	what := b.Step
	if b.Scenario != "" {
		what = b.Scenario + ": " + what
	}
	if b.N > 0 {
		left := ""
		if b.Left > 0 {
			left = ", about " + about(b.Left) + " left"
		}
		// What must not be lost where the line is cut comes first.
		what = fmt.Sprintf("[%d/%d%s] %s", b.N, b.Of, left, what)
	}
	if b.Samples > 0 {
		what += fmt.Sprintf(" (%s, %d failed)", text.Count(b.Samples, "request"), b.Failed)
	}
	p.step(what)
}

func (p *progress) step(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != "" && p.width > 0 {
		p.write("\r\x1b[K" + p.stamp() + p.line + "\n")
	}
	p.line, p.at = what, time.Now()
	if p.width == 0 {
		p.write(p.stamp() + what + "\n")
		return
	}
	p.draw()
}

// print writes a line that stays.
func (p *progress) print(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 && p.line != "" {
		what = "\r\x1b[K" + what
	}
	p.write(what + "\n")
}

// stamp is the time since the begin: what a person compares.
func (p *progress) stamp() string {
	d := time.Since(p.begun).Round(time.Second)
	return fmt.Sprintf("%3d:%02d  ", int(d.Minutes()), int(d.Seconds())%60)
}

// draw draws the live line, cut to the terminal's width: a line that wraps
// could not be drawn over.
func (p *progress) draw() {
	if p.line == "" {
		return
	}
	s := fmt.Sprintf("%s%s  [%s]", p.stamp(), p.line, time.Since(p.at).Round(time.Second))
	if r := []rune(s); len(r) >= p.width {
		s = string(r[:p.width-1])
	}
	p.write("\r\x1b[K" + s)
}

// write can't do anything about a broken standard error, and need not.
func (p *progress) write(s string) { _, _ = io.WriteString(p.out, s) }

func (p *progress) live() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// close ends the live line.
func (p *progress) close() {
	close(p.stop)
	p.ended.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 && p.line != "" {
		p.write("\r\x1b[K" + p.stamp() + p.line + "\n")
	}
	p.line = ""
}

// about rounds a duration as a person would say it.
func about(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Round(5*time.Second).Seconds()))
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Round(10*time.Second).Seconds())%60)
}
