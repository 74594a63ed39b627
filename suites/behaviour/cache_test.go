// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCacheKeepsSoundRecordingsOnly(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Of: "x"}
	s := Scenario{Name: "delete-1", Fault: "f"}
	record := func(m Meta) string {
		t.Helper()
		dir := t.TempDir()
		m.Scenario = s
		if err := writeJSON(filepath.Join(dir, scenarioFile), m); err != nil {
			t.Fatal(err)
		}
		if err := c.keep(s, dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, m := range map[string]Meta{
		"stopped":  {},
		"doubtful": {Ended: true, Doubt: "d"},
		"broken":   {Ended: true, Error: "e"},
	} {
		record(m)
		if c.HasAll([]Scenario{s}) {
			t.Errorf("a recording that was %s is kept", name)
		}
	}
	record(Meta{Ended: true, Clients: []string{"n1"}})
	other := s
	other.Fault = "g"
	if !c.HasAll([]Scenario{s}) || c.HasAll([]Scenario{s, other}) || (Cache{Dir: c.Dir, Of: "y"}).HasAll([]Scenario{s}) {
		t.Error("it is kept under its own scenario and its own hash, and under no other")
	}
	into := filepath.Join(t.TempDir(), "history", "delete-1")
	if ok, err := c.take(s, into); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := os.Stat(filepath.Join(into, scenarioFile)); err != nil {
		t.Error(err)
	}
	if ok, err := (Cache{}).take(s, into); ok || err != nil {
		t.Error("no cache keeps nothing", ok, err)
	}
}
