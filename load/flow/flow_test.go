// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/json"
	"testing"
	"time"
)

func TestAFlowIsReadAsItIsCalled(t *testing.T) {
	for name, want := range map[string]Flow{
		"service/http1/new/get":                              {Service, HTTP1, New, Get, 0, 0},
		"direct/h2c/shared/get/delay=20ms":                   {Direct, H2C, Shared, Get, 0, 20 * time.Millisecond},
		"direct/http1-backendtls/reused/post/500ms":          {Direct, BackendTLS, Reused, Post, 500 * time.Millisecond, 0},
		"nodeport-local/h2/reused/grpc-bidi/1m3s/delay=20ms": {NodePortLocal, H2, Reused, Bidi, 63 * time.Second, 20 * time.Millisecond},
	} {
		if got := Parse(name); got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
		if got := want.String(); got != name {
			t.Errorf("%+v is called %s, not %s", want, got, name)
		}
	}
	// What another version wrote is no reason to read nothing.
	if got := Parse("odd/words"); got != (Flow{Path: "odd", Protocol: "words"}) {
		t.Errorf("%+v", got)
	}
}

func TestStreams(t *testing.T) {
	get := Flow{Path: Direct, Protocol: HTTP1, Conns: New, Op: Get}
	const name = "direct/http1/new/get@uid-a"
	s := Named(name)
	if s != To(get, "uid-a") || s.Flow() != get || s.Target() != "uid-a" || s.String() != name || s.Kind() != "direct/http1/new/get" {
		t.Errorf("%s: %+v to %s, kind %s", s, s.Flow(), s.Target(), s.Kind())
	}
	if To(get, "") == s || To(get, "").Target() != "" || To(get, "").String() != get.String() {
		t.Error("one that nobody chose a target of is another's")
	}
	// The suite's own look is of no flow that a check asks for, and keeps its name.
	scout := s.Scouting()
	if scout.Flow() != (Flow{Path: Scout}) || scout.Target() != "uid-a" || scout.Kind() != "scout/direct/http1/new/get" {
		t.Errorf("%s: %+v", scout, scout.Flow())
	}
	if none := (Stream{}); none != Named("") || none.String() != "" || none.Flow() != (Flow{}) || none == s {
		t.Error("the zero stream has a name")
	}
}

// Whose stream it is, and whether it can see a death.
func TestPaths(t *testing.T) {
	for path, want := range map[Path][2]bool{Direct: {true, true}, Outbound: {true, false}, Service: {false, true}, NodePortLocal: {false, true}} {
		f := Flow{Path: path, Protocol: HTTP1, Conns: New, Op: Get}
		if got := [2]bool{path.PerPod(), f.Sights()}; got != want {
			t.Errorf("%s: per pod, and sees a death: %v, want %v", path, got, want)
		}
	}
}

func TestAStreamInAFile(t *testing.T) {
	type line struct {
		Stream Stream `json:"stream"`
	}
	var got line
	const text = `{"stream":"service/http1/reused/slow/2s@a"}`
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	back, err := json.Marshal(got)
	if err != nil || string(back) != text {
		t.Errorf("%s, %v", back, err)
	}
}
