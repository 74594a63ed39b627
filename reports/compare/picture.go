// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"image/color"
	"io"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

var (
	blue = color.RGBA{R: 0x2c, G: 0x6f, B: 0xb0, A: 0xff}
	dark = color.RGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff}
)

// WritePNG draws the propagation of each version and mode: a dot for each
// termination, a line at the median, and the worst in words.
func WritePNG(w io.Writer, c *Comparison) error {
	groups, err := c.groups()
	if err != nil {
		return err
	}
	slices.Reverse(groups) // the axis counts from the bottom
	p := plot.New()
	p.Title.Text = "Propagation: how long new connections reached an instance after its endpoint said terminating"
	p.X.Label.Text = "T_lastnew - T_endpoint in milliseconds; a dot is a termination, a line the median"
	p.X.Tick.Marker = plot.DefaultTicks{}
	names := make([]string, len(groups))
	widest := time.Duration(0)
	for i := range groups {
		g := &groups[i]
		names[i] = g.label()
		widest = max(widest, g.worst())
		p.Add(&strip{group: g, y: float64(i)})
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(groups))-0.4
	// To the right of the worst is room for its words.
	p.X.Min, p.X.Max = 0, 1.3*max(1, milliseconds(widest))
	height := 3*vg.Centimeter + vg.Length(max(3, len(groups)))*1.2*vg.Centimeter
	png, err := p.WriterTo(26*vg.Centimeter, height, "png")
	if err != nil {
		return fmt.Errorf("draw the propagation: %w", err)
	}
	if _, err := png.WriteTo(w); err != nil {
		return fmt.Errorf("draw the propagation: %w", err)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// strip is the row of one group.
type strip struct {
	group *group
	y     float64
}

var _ plot.Plotter = (*strip)(nil)

// Plot draws the row.
func (s *strip) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, d := range s.group.spread {
		// Dots that lie on each other would count as one: three lanes.
		lane := 0.16 * float64(i%3-1)
		c.DrawGlyph(draw.GlyphStyle{Color: blue, Radius: vg.Points(2.2), Shape: draw.RingGlyph{}},
			vg.Point{X: x(milliseconds(d)), Y: y(s.y + lane)})
	}
	at := x(milliseconds(s.group.median()))
	c.StrokeLine2(draw.LineStyle{Color: dark, Width: vg.Points(1.5)}, at, y(s.y-0.32), at, y(s.y+0.32))
	style := p.X.Tick.Label
	style.Font.Size = vg.Points(8)
	style.XAlign, style.YAlign = draw.XLeft, draw.YCenter
	c.FillText(style, vg.Point{X: x(milliseconds(s.group.worst())) + vg.Points(7), Y: y(s.y)},
		fmt.Sprintf("median %s, worst %s, n %d", text.Latency(v1alpha1.Duration(s.group.median())),
			text.Latency(v1alpha1.Duration(s.group.worst())), len(s.group.spread)))
}
