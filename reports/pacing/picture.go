// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	blue   = color.RGBA{R: 0x2c, G: 0x6f, B: 0xb0, A: 0xff}
	amber  = color.RGBA{R: 0xfb, G: 0xe3, B: 0xb2, A: 0xff}
	brown  = color.RGBA{R: 0xc9, G: 0x8a, B: 0x1b, A: 0xff}
	purple = color.RGBA{R: 0x7b, G: 0x3f, B: 0xb0, A: 0xff}
	red    = color.RGBA{R: 0xd6, G: 0x1f, B: 0x1f, A: 0xff}
)

// WritePNG draws the probability of being back over time, and into it the table's
// interval, the formula and the time asked for.
func WritePNG(w io.Writer, a *Answer) error {
	p := plot.New()
	p.Title.Text = a.question()
	p.X.Label.Text = "seconds from the moment at which the new replica is ready"
	p.Y.Label.Text = "probability of being back"
	if a.Agents > 1 {
		p.Y.Label.Text = "probability that all are back"
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
	end := a.horizon()
	p.X.Min, p.X.Max = 0, end
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.YPosition = draw.PosCenter
	p.Legend.Padding = vg.Points(3)
	p.Legend.XOffs, p.Legend.YOffs = -vg.Points(45), vg.Points(8)

	about := ""
	if a.Missing > 1 {
		about = ", for one tunnel"
	}
	t := a.Table
	table, err := plotter.NewPolygon(plotter.XYs{{X: t.From, Y: 0}, {X: t.To, Y: 0}, {X: t.To, Y: 1}, {X: t.From, Y: 1}})
	if err != nil {
		return fmt.Errorf("draw the table: %w", err)
	}
	table.Color, table.LineStyle = amber, draw.LineStyle{Color: brown, Width: vg.Points(0.7)}
	const points = 2000
	curve := make(plotter.XYs, points+1)
	for i := range curve {
		x := end * float64(i) / points
		curve[i] = plotter.XY{X: x, Y: 1 - a.Late(x)}
	}
	back, err := line(curve, blue, vg.Points(2))
	if err != nil {
		return err
	}
	formula, err := line(plotter.XYs{{X: a.Formula, Y: 0}, {X: a.Formula, Y: 1}}, purple, vg.Points(1.5), vg.Points(5), vg.Points(3))
	if err != nil {
		return err
	}
	exact, err := line(plotter.XYs{{X: 0, Y: a.Probability}, {X: a.Exact.Seconds, Y: a.Probability}, {X: a.Exact.Seconds, Y: 0}}, red, vg.Points(1.5))
	if err != nil {
		return err
	}
	// What lies below 0 means nothing, and is outside.
	if t.Retries >= 0 {
		p.Add(table)
		p.Legend.Add(fmt.Sprintf("the thread's table: %s to %s s%s", seconds(t.From), seconds(t.To), about), table)
	}
	p.Add(back)
	p.Legend.Add("the exact distribution", back)
	if t.Retries >= 0 {
		p.Add(formula)
		p.Legend.Add(fmt.Sprintf("the thread's formula: %s s%s", seconds(a.Formula), about), formula)
	}
	p.Add(exact)
	p.Legend.Add(fmt.Sprintf("probability %g: %s s", a.Probability, a.Exact), exact)
	png, err := p.WriterTo(26*vg.Centimeter, 14*vg.Centimeter, "png")
	if err != nil {
		return fmt.Errorf("draw the times: %w", err)
	}
	if _, err := png.WriteTo(w); err != nil {
		return fmt.Errorf("draw the times: %w", err)
	}
	return nil
}

// ticks are five to ten numbers that are easy to count by.
func ticks(least, most float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((most-least)/5)))
	for _, by := range []float64{1, 2, 5, 10} {
		if by*step >= (most-least)/10 {
			step *= by
			break
		}
	}
	var out []plot.Tick
	for n := math.Ceil(least / step); n*step <= most*(1+1e-9); n++ {
		out = append(out, plot.Tick{Value: n * step, Label: fmt.Sprintf("%.6g", n*step)})
	}
	return out
}

func line(points plotter.XYs, c color.Color, width vg.Length, dashes ...vg.Length) (*plotter.Line, error) {
	l, err := plotter.NewLine(points)
	if err != nil {
		return nil, fmt.Errorf("draw a line: %w", err)
	}
	l.LineStyle = draw.LineStyle{Color: c, Width: width, Dashes: dashes}
	return l, nil
}
