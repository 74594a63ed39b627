// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// `lastcall run` and the test in Ginkgo's hands give the same verdicts. The fault breaks
// one of the two behaviours, which share a recording: both have to be seen.
func TestSameVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("it records the host stage twice, and this is -short")
	}
	const broken, kept, fault = "tls.close-notify", "http1.closes-after-saying", "bare-fin"
	dir := t.TempDir()
	build := func(args ...string) {
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	build("build", "-o", filepath.Join(dir, "lastcall"), ".")
	build("test", "-c", "-o", filepath.Join(dir, "suites.test"), "../../suites")

	type seen struct {
		Exit     int
		Verdicts map[string]spec.Verdict // of behaviours, and of their checks
	}
	// What a machine that the host robs makes of a run is nobody's verdict.
	const robbed = 0.05
	excuse := ""
	run := func(name, prefix string, args ...string) seen {
		out := filepath.Join(dir, name+"-out")
		for flag, value := range map[string]string{"stage": "host", "behaviours": broken + "," + kept, "fault": fault, "out": out} {
			args = append(args, prefix+flag+"="+value)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
		cmd.Dir = "../../suites"
		said, err := cmd.CombinedOutput()
		t.Logf("%s %s\n%s", name, strings.Join(args, " "), said)
		report, rerr := yaml.ReadDir(out)
		if rerr != nil {
			t.Fatal(rerr)
		}
		if (err != nil) != (report.ExitCode != 0) {
			t.Errorf("%s: the report's exit code is %d, and the process says %v", name, report.ExitCode, err)
		}
		s := seen{report.ExitCode, map[string]spec.Verdict{}}
		for _, b := range report.Behaviours {
			if l := report.Environment.Load; b.Verdict == spec.Inconclusive && l != nil && l.Stolen >= robbed {
				excuse = name + ": " + b.ID + " is Inconclusive, and the host took the machine's CPU for others: " + b.Reason
			}
			s.Verdicts[b.Name()] = b.Verdict
			for _, f := range b.Findings {
				s.Verdicts[b.Name()+" "+f.Check] = f.Verdict
			}
		}
		return s
	}
	cli := run("lastcall", "--", "run")
	test := run("suites.test", "-lastcall.", "-test.run=^TestConformance$")
	if excuse != "" {
		t.Skip(excuse)
	}
	if d := cmp.Diff(cli, test); d != "" {
		t.Errorf("(-lastcall run +Ginkgo)\n%s", d)
	}
	if cli.Verdicts[broken] != spec.Fail || cli.Verdicts[kept] != spec.Pass {
		t.Errorf("with fault %s: %v", fault, cli.Verdicts)
	}
}
