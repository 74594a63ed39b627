// SPDX-License-Identifier: Apache-2.0

// Package picture draws a scenario's timeline: when which instance ended, and
// what each stream of clients saw meanwhile.
package picture

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// bin is the stretch of time that one tick stands for.
const bin = 100 * time.Millisecond

var (
	blue  = color.RGBA{R: 0x9e, G: 0xc5, B: 0xe8, A: 0xff}
	deep  = color.RGBA{R: 0x5b, G: 0x93, B: 0xcf, A: 0xff}
	green = color.RGBA{R: 0x8f, G: 0xcf, B: 0x9a, A: 0xff}
	red   = color.RGBA{R: 0xd6, G: 0x1f, B: 0x1f, A: 0xff}
	// amber is what is no evidence.
	amber = color.RGBA{R: 0xf2, G: 0xb1, B: 0x34, A: 0xff}
	dark  = color.RGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff}
	// purple is what the suite did.
	purple = color.RGBA{R: 0x7b, G: 0x3f, B: 0xb0, A: 0xff}
)

// caption says what the marks and colours mean.
const caption = "seconds from T0; D draining begins, E endpoint terminating, X process gone, K its grace period ends; dashed: what the suite did\n" +
	"light blue: from the deletion to the exit; deep blue: P after D, for which new connections may still come\n" +
	"green: 100 ms with attempts that went well; red: with failures, each where it failed. Failures at a pod after its listener closed are expected.\n" +
	"amber: with attempts that the suite's own client sent late, which are no evidence"

// WritePNG draws the scenario. From the top: what the suite did, each a line
// through all that is below; a bar for each termination, from the deletion to
// the exit, with the marks D, E (the endpoint says terminating), X (the process
// is gone) and, where it was seen, K, and with the window P after D;
// then a lane for each stream, green where attempts of 100 ms went well, and a
// red tick as tall as the share of those that failed, at the instant at which
// they failed; amber at the bottom where some were sent late.
func WritePNG(w io.Writer, t *timeline.Timeline, s *v1alpha1.Scenario, window time.Duration) error {
	p := plot.New()
	p.Title.Text = s.Name + ": " + s.Disruption
	p.X.Label.Text = caption
	p.X.Label.TextStyle.Font.Size = vg.Points(9)
	p.Y.Tick.Label.Font.Size = vg.Points(8)
	p.Y.Label.Text = " " // without it the longest name loses its first letter
	p.X.Tick.Marker = plot.DefaultTicks{}

	lanes := append(terminations(s, window), streams(t, s)...)
	slices.Reverse(lanes) // the axis counts from the bottom
	names := make([]string, len(lanes))
	for i, l := range lanes {
		names[i] = l.name
		l.y = float64(i)
		p.Add(l)
	}
	if len(names) > 0 {
		p.NominalY(names...)
	}
	p.X.Min, p.X.Max = span(lanes)
	for _, l := range lanes {
		// K is after the exit, most of the time after all that was recorded.
		l.mark = slices.DeleteFunc(l.mark, func(m mark) bool { return m.at.Seconds() > p.X.Max })
	}
	head := &above{base: float64(len(lanes)) - 0.3}
	for _, a := range acts(t) {
		if at := a.at.Seconds(); at >= p.X.Min && at <= p.X.Max {
			head.acts = append(head.acts, a)
		}
	}
	p.Add(head)
	p.Y.Min, p.Y.Max = -0.6, float64(len(lanes))-0.4+0.5*(rows+0.4)

	height := 4.9*vg.Centimeter + vg.Length(max(4, len(lanes)))*0.75*vg.Centimeter
	c, err := p.WriterTo(32*vg.Centimeter, height, "png")
	if err != nil {
		return fmt.Errorf("draw scenario %s: %w", s.Name, err)
	}
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("draw scenario %s: %w", s.Name, err)
	}
	return nil
}

// lane is one row of the picture.
type lane struct {
	name string
	y    float64
	bars []bar
	mark []mark
}

// bar is a filled stretch of a lane; tall is its share of the lane's height.
type bar struct {
	from, to time.Duration
	tall     float64
	fill     color.Color
}

type mark struct {
	at   time.Duration
	text string
}

var _ plot.Plotter = (*lane)(nil)

// Plot draws the lane.
func (l *lane) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, b := range l.bars {
		// A tick thinner than a point can't be seen.
		from, to := x(b.from.Seconds()), x(b.to.Seconds())
		to = max(to, from+vg.Points(1.2))
		low, high := y(l.y-0.4), y(l.y-0.4+0.8*b.tall)
		c.FillPolygon(b.fill, []vg.Point{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}})
	}
	style := p.X.Tick.Label
	style.Font.Size = vg.Points(7)
	style.XAlign, style.YAlign = draw.XCenter, draw.YBottom
	for i := 0; i < len(l.mark); {
		at, text := x(l.mark[i].at.Seconds()), ""
		// What is too near to be told apart is written together: "DE".
		for ; i < len(l.mark) && x(l.mark[i].at.Seconds())-at < vg.Points(7); i++ {
			text += l.mark[i].text
			here := x(l.mark[i].at.Seconds())
			c.StrokeLine2(draw.LineStyle{Color: dark, Width: vg.Points(1)}, here, y(l.y-0.4), here, y(l.y+0.2))
		}
		c.FillText(style, vg.Point{X: at, Y: y(l.y + 0.22)}, text)
	}
}

func terminations(s *v1alpha1.Scenario, window time.Duration) []*lane {
	var out []*lane
	for i := range s.Terminations {
		t := &s.Terminations[i]
		l := &lane{name: t.Pod}
		var from, to *v1alpha1.Instant
		for _, in := range []*v1alpha1.Instant{t.Deletion, t.Drain, t.Endpoint, t.Exit} {
			if in == nil {
				continue
			}
			if from == nil || in.At < from.At {
				from = in
			}
			if to == nil || in.At > to.At {
				to = in
			}
		}
		if from != nil {
			l.bars = []bar{{from: from.At.D(), to: to.At.D(), tall: 0.7, fill: blue}}
		}
		if t.Drain != nil && window > 0 {
			l.bars = append(l.bars, bar{from: t.Drain.At.D(), to: t.Drain.At.D() + window, tall: 0.35, fill: deep})
		}
		for _, m := range []struct {
			in   *v1alpha1.Instant
			text string
		}{{t.Drain, "D"}, {t.Endpoint, "E"}, {t.Exit, "X"}, {t.Kill, "K"}} {
			if m.in != nil {
				l.mark = append(l.mark, mark{at: m.in.At.D(), text: m.text})
			}
		}
		slices.SortStableFunc(l.mark, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
		out = append(out, l)
	}
	return out
}

// streams folds the samples of each stream into stretches of one bin.
func streams(t *timeline.Timeline, s *v1alpha1.Scenario) []*lane {
	type tally struct{ all, failed, late int }
	bins := map[flow.Stream]map[time.Duration]tally{}
	for i := range t.Samples {
		x := &t.Samples[i]
		if bins[x.Stream] == nil {
			bins[x.Stream] = map[time.Duration]tally{}
		}
		failed := x.Failed() && x.Outcome != timeline.Cancelled
		// A slow reply that is cut was sent seconds before, when all was well.
		at := x.Start.Truncate(bin)
		if failed {
			at = max(x.Start, x.End).Truncate(bin)
		}
		n := bins[x.Stream][at]
		n.all++
		if failed {
			n.failed++
		}
		if x.Saturated {
			n.late++
		}
		bins[x.Stream][at] = n
	}
	names := pods(t, s)
	var out []*lane
	for name, byTime := range bins {
		l := &lane{name: label(name.String(), names)}
		var good, late, bad []bar
		for at, n := range byTime {
			if n.failed < n.all {
				good = append(good, bar{from: at, to: at + bin, tall: 0.35, fill: green})
			}
			if n.late > 0 {
				late = append(late, bar{from: at, to: at + bin, tall: 0.15, fill: amber})
			}
			if n.failed > 0 {
				// The least tick is tall enough to be seen.
				tall := 0.4 + 0.6*float64(n.failed)/float64(n.all)
				bad = append(bad, bar{from: at, to: at + bin, tall: tall, fill: red})
			}
		}
		l.bars = slices.Concat(joined(good), joined(late), bad)
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *lane) int { return strings.Compare(a.name, b.name) })
	return out
}

// joined makes one bar of bars that touch.
func joined(bars []bar) []bar {
	slices.SortFunc(bars, func(a, b bar) int { return int(a.from - b.from) })
	var out []bar
	for _, b := range bars {
		if n := len(out); n > 0 && out[n-1].to == b.from {
			out[n-1].to = b.to
			continue
		}
		out = append(out, b)
	}
	return out
}

// pods are the names of the pods, by UID.
func pods(t *timeline.Timeline, s *v1alpha1.Scenario) map[string]string {
	out := map[string]string{}
	for _, e := range t.EventsOf(timeline.PodSeen, "") {
		out[e.Subject] = e.Name
	}
	for i := range s.Terminations {
		out[s.Terminations[i].UID] = s.Terminations[i].Pod
	}
	return out
}

// tail is how much of a node's name is shown: nodes differ at the end.
const tail = 12

// label puts the pod's name where a stream's own name has its UID.
func label(stream string, pods map[string]string) string {
	flow, at, named := strings.Cut(stream, "@")
	if !named {
		return stream
	}
	if pod := pods[at]; pod != "" {
		return flow + "@" + pod
	}
	if len(at) > tail {
		at = at[len(at)-tail:]
		at = "..." + at[max(0, strings.Index(at, "-")):]
	}
	return flow + "@" + at
}

// span is the time that the lanes cover, in seconds.
func span(lanes []*lane) (from, to float64) {
	first := true
	for _, l := range lanes {
		for _, b := range l.bars {
			if first || b.from.Seconds() < from {
				from = b.from.Seconds()
			}
			if first || b.to.Seconds() > to {
				to = b.to.Seconds()
			}
			first = false
		}
	}
	if to <= from {
		to = from + 1
	}
	return from, to
}
