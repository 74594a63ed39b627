// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// A vendor's sidecar has to have been passed by all that is known to have been asked, or nothing is
// known of it.
func TestPast(t *testing.T) {
	const disturbed = 10 * time.Second
	through := timeline.Sample{Stream: flow.To(flow.Flow{Path: flow.Direct, Op: flow.Get}, "a"), Start: time.Second, Server: "a", Relayed: true}
	with := func(change func(*timeline.Sample)) timeline.Sample {
		s := through
		change(&s)
		return s
	}
	straight := with(func(s *timeline.Sample) { s.Relayed = false })
	for name, c := range map[string]struct {
		sidecar string
		samples []timeline.Sample
		want    string
	}{
		"none is there":        {"", []timeline.Sample{straight}, ""},
		"all through it":       {"proxy", []timeline.Sample{through, through}, ""},
		"one past it":          {"proxy", []timeline.Sample{through, straight}, "1 requests (direct) before anything was disturbed came past the sidecar proxy"},
		"one call past it":     {"proxy", []timeline.Sample{through, with(func(s *timeline.Sample) { s.Stream, s.Relayed = flow.To(flow.Flow{Path: flow.Outbound}, "a"), false })}, "1 requests (outbound)"},
		"nobody asked":         {"proxy", nil, "no request shows that it came through the sidecar proxy"},
		"never answered":       {"proxy", []timeline.Sample{with(func(s *timeline.Sample) { s.Server = "" })}, "no request shows"},
		"by a Service":         {"proxy", []timeline.Sample{with(func(s *timeline.Sample) { s.Stream = flow.To(flow.Flow{Path: flow.Service}, "") })}, ""},
		"from outside":         {"proxy", []timeline.Sample{with(func(s *timeline.Sample) { s.Stream = flow.To(flow.Flow{Path: flow.NodePort}, "") })}, "no request shows"},
		"past it, behind that": {"proxy", []timeline.Sample{through, with(func(s *timeline.Sample) { s.Start, s.Relayed = disturbed, false })}, ""},
	} {
		tl := &timeline.Timeline{Samples: c.samples, Events: []timeline.Event{{Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkSubject, "sidecar": c.sidecar}}}}
		got := past(assertions.Case{Timeline: tl, Disturbed: disturbed})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
