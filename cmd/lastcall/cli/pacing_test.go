// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestPacing(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "p.png")
	for args, want := range map[string][]string{
		"--replicas 3":                     {"48.46 to 96.93", "53.14", "47.64 ± 0.01", "minReadySeconds: 48\n", "Which to trust", "Where they differ"},
		"--replicas 3 --probability 0.5":   {"1.72 to 3.43", "Y = 0.71 retries"},
		"--replicas 3 --agents 200":        {"minReadySeconds: 523\n"},
		"--replicas 4 --missing 4":         {"minReadySeconds: 108\n"},
		"--replicas 3 -o yaml":             {"minReadySeconds: 48\n", "replicas: 3\n"},
		"--replicas 3 --plot " + picture:   {"minReadySeconds: 48\n"},
		"--replicas 3 --simulate 1000":     {"of 1000 agents were back"},
		"--replicas 3 -o yaml --agents=10": {"agents: 10\n"},
	} {
		got := lastcall(t, spec.Pass, append([]string{"pacing"}, strings.Fields(args)...)...)
		for _, w := range want {
			if got.code != 0 || !strings.Contains(got.stdout, w) || got.stderr != "" {
				t.Errorf("%s: exit %d, want %q\n%s\n%s", args, got.code, w, got.stdout, got.stderr)
			}
		}
	}
	b, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(b)); err != nil {
		t.Error(err)
	}
	if got := lastcall(t, spec.Pass, "pacing", "--help"); got.code != 0 || !strings.Contains(got.stdout, "Examples:") || !strings.Contains(got.stdout, "which one to trust") {
		t.Errorf("exit %d\n%s", got.code, got.stdout)
	}
}

func TestPacingRefuses(t *testing.T) {
	dir := t.TempDir()
	nowhere := filepath.Join(dir, "nowhere", "p.png")
	for want, args := range map[string]string{
		"--replicas is missing: give how many":           "",
		"--replicas 1: there is nothing to wait for":     "--replicas 1",
		"--replicas 9000: with this probability":         "--replicas 9000 --plot " + filepath.Join(dir, "never.png"),
		"--probability NaN: it is more than 0":           "--replicas 3 --probability NaN",
		"--probability 90: it is more than 0":            "--replicas 3 --probability 90",
		"--probability 1: it is more than 0":             "--replicas 3 --probability 1",
		"--agents 0: give how many":                      "--replicas 3 --agents 0",
		"--missing 4: an agent has one":                  "--replicas 3 --missing 4",
		"--simulate -1: give 1 to":                       "--replicas 3 --simulate -1",
		"--plot: open " + nowhere:                        "--replicas 3 --plot " + nowhere,
		`--plot "p.svg": it is a PNG: name a file`:       "--replicas 3 --plot p.svg",
		`--plot "": it is a PNG: name a file`:            "--replicas 3 --plot=",
		`-o "html": it is text or yaml`:                  "--replicas 3 -o html",
		`invalid argument "three" for "--replicas"`:      "--replicas three",
		`invalid argument "99999999999999999999" for "-`: "--replicas 3 --agents 99999999999999999999",
		"unknown flag: --replica: is it --replicas?":     "--replica 3",
		`unknown command "3" for "lastcall pacing"`:      "3",
	} {
		got := lastcall(t, spec.Pass, append([]string{"pacing"}, strings.Fields(args)...)...)
		if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, want %q in\n%s\n%s", args, got.code, want, got.stderr, got.stdout)
		}
	}
	if got := lastcall(t, spec.Pass, "pacing", "--replicas", "1", "--probability", "2", "--agents", "0", "-o", "x"); strings.Count(got.stderr, "\n") != 4 {
		t.Errorf("not all mistakes at once:\n%s", got.stderr)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("what is refused writes nothing: %v, %v", left, err)
	}
}
