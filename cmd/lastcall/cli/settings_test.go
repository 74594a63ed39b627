// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/lastcall-dev/lastcall/suites"
)

// The suite's own test takes what `lastcall run` takes, under the same names.
func TestSettingsOfTheTest(t *testing.T) {
	ours, theirs := map[string]bool{}, map[string]bool{}
	newRun(nil).Flags().VisitAll(func(f *pflag.Flag) { ours["lastcall."+f.Name] = true })
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	suites.AddFlags(fs)
	fs.VisitAll(func(f *flag.Flag) { theirs[f.Name] = true })
	if d := cmp.Diff(ours, theirs); d != "" {
		t.Errorf("(-lastcall run +the test)\n%s", d)
	}
}
