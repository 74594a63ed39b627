// SPDX-License-Identifier: Apache-2.0

package picture_test

import (
	"bytes"
	"image/png"
	"os"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/picture"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

func at(s float64) *v1alpha1.Instant {
	return &v1alpha1.Instant{At: v1alpha1.Duration(s * float64(time.Second))}
}

// recording is 20 s of two streams; echo-1 leaves at 8 s and refuses from
// then on.
func recording() (*timeline.Timeline, *v1alpha1.Scenario) {
	s := &v1alpha1.Scenario{Name: "delete-one", Disruption: "delete one pod", Terminations: []v1alpha1.Termination{
		{Pod: "echo-1", UID: "u1", Deletion: at(7.9), Drain: at(8), Endpoint: at(8.2), Exit: at(13)},
		{Pod: "echo-2", UID: "u2", Deletion: at(14)},
	}}
	t := &timeline.Timeline{}
	for now := time.Duration(0); now < 20*time.Second; now += 20 * time.Millisecond {
		service := timeline.Sample{Stream: flow.Named("service/http1/new/get"), Start: now, Outcome: timeline.OK}
		direct := timeline.Sample{Stream: flow.Named("direct/http1/new/get@u1"), Start: now, Outcome: timeline.OK}
		service.Saturated = now > 3*time.Second && now < 4*time.Second
		if now > 8*time.Second && now < 13*time.Second {
			direct.Outcome = timeline.Refused
			if now%(400*time.Millisecond) == 0 {
				service.Outcome = timeline.Reset
			}
		}
		t.Samples = append(t.Samples, service, direct)
		for _, node := range []string{"lastcall-worker", "lastcall-worker2"} {
			t.Samples = append(t.Samples, timeline.Sample{Stream: flow.Named("nodeport-local/http1/new/get@" + node), Start: now, Outcome: timeline.OK})
		}
	}
	for _, e := range []struct {
		at   float64
		what string
	}{{7.9, "delete"}, {9.9, "sigterm-again"}, {14, "delete"}, {14.1, "restart-kube-proxy"}, {19.9, "control-plane-outage"}} {
		t.Events = append(t.Events, timeline.Event{At: at(e.at).At.D(), Kind: timeline.Disruption, Attrs: map[string]string{"what": e.what}})
	}
	return t, s
}

func TestWritePNG(t *testing.T) {
	var b bytes.Buffer
	history, scenario := recording()
	if err := picture.WritePNG(&b, history, scenario, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("LASTCALL_PICTURE"); path != "" { // to look at it
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	var red, green, purple, deep, amber int
	for y := range img.Bounds().Max.Y {
		for x := range img.Bounds().Max.X {
			switch r, g, bl, _ := img.At(x, y).RGBA(); {
			case r>>8 == 0x5b && g>>8 == 0x93 && bl>>8 == 0xcf:
				deep++
			case r>>8 == 0xf2 && g>>8 == 0xb1 && bl>>8 == 0x34:
				amber++
			case r > 0xc000 && g < 0x4000 && bl < 0x4000:
				red++
			case r < 0xa000 && g > 0xb000 && bl < 0xb000:
				green++
			case r > g+0x1000 && bl > r+0x1000:
				purple++
			}
		}
	}
	if red == 0 || green == 0 || purple == 0 || deep == 0 || amber == 0 {
		t.Errorf("%d red, %d green, %d purple, %d deep blue and %d amber pixels", red, green, purple, deep, amber)
	}
}

func TestNothingRecorded(t *testing.T) {
	var b bytes.Buffer
	if err := picture.WritePNG(&b, &timeline.Timeline{}, &v1alpha1.Scenario{Name: "empty"}, 3*time.Second); err != nil {
		t.Fatal(err)
	}
}
