// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// act is something that the suite did: a line from top to bottom.
type act struct {
	at   time.Duration
	text string
}

// words are what people call the acts; the others have the names that the
// recording gives them.
var words = map[string]string{
	"kill":                 "SIGKILL",
	"sigterm-again":        "2nd SIGTERM",
	"drain-call":           "drain call",
	"restart-kube-proxy":   "kube-proxy restarts",
	"control-plane-outage": "control plane killed",
	"node-shutdown":        "node shutdown",
	"scale-down":           "scale down",
	"scale-up":             "scale up",
	"rollout":              "roll out",
}

// acts are the disruptions of the recording, and what became of the control
// plane meanwhile. What was done to several at the same moment is one.
func acts(t *timeline.Timeline) []act {
	var out []act
	add := func(at time.Duration, text string) {
		if !slices.ContainsFunc(out, func(a act) bool { return a.text == text && at-a.at < time.Second }) {
			out = append(out, act{at, text})
		}
	}
	for _, e := range t.Events {
		switch e.Kind {
		case timeline.Disruption:
			text := e.Attrs["what"]
			if w, ok := words[text]; ok {
				text = w
			}
			switch {
			case e.Attrs["done"] == "true":
				text = "kube-proxy is back"
			case e.Attrs["refused"] == "true":
				text += " refused"
			}
			add(e.At, text)
		case timeline.Outage:
			text := strings.TrimPrefix(e.Subject, "kube-") + " away"
			if e.Attrs["up"] == "true" {
				text = strings.TrimSuffix(text, "away") + "back"
			}
			add(e.At, text)
		}
	}
	return out
}

// above is the head of the picture that the acts are written in: rows of
// labels, so that none is written over another.
type above struct {
	acts []act
	// base is the first row, on the axis of the lanes.
	base float64
}

// rows is how many rows of labels there are.
const rows = 3

var _ plot.Plotter = (*above)(nil)

// Plot draws the acts. A label for which no row has room is left out: its line
// stands.
func (a *above) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := p.X.Tick.Label
	style.Font.Size = vg.Points(7)
	style.XAlign, style.YAlign = draw.XLeft, draw.YBottom
	style.Color = purple
	var ends [rows]vg.Length
	for i := range ends {
		ends[i] = c.Min.X
	}
	for _, act := range a.acts {
		at := x(act.at.Seconds())
		row := slices.IndexFunc(ends[:], func(end vg.Length) bool { return end <= at })
		top := y(a.base)
		if row >= 0 {
			top = y(a.base + 0.5*float64(row))
			label := vg.Point{X: at + vg.Points(1.5), Y: top}
			wide := style.Width(act.text)
			// At the right edge it stands before its line.
			if label.X+wide > c.Max.X && at-wide-vg.Points(1.5) >= ends[row] {
				label.X = at - wide - vg.Points(1.5)
			}
			c.FillText(style, label, act.text)
			ends[row] = max(at, label.X+wide) + vg.Points(4)
			top += vg.Points(6)
		}
		c.StrokeLine2(draw.LineStyle{Color: purple, Width: vg.Points(0.6), Dashes: []vg.Length{vg.Points(3), vg.Points(2)}},
			at, y(-0.5), at, top)
	}
}
