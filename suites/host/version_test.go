// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

func TestVersion(t *testing.T) {
	for name, c := range map[string]struct {
		command      []string
		says, unsaid string
	}{
		"the first line":             {[]string{"printf", `\n proxy 3.0.11 \nsupported\n`}, "proxy 3.0.11", ""},
		"its environment":            {[]string{"sh", "-c", "echo $PLACE"}, "at home", ""},
		"nobody asks":                {nil, "", ""},
		"it fails":                   {[]string{"sh", "-c", "echo no such library; exit 1"}, "", "host.version: sh -c echo no such library; exit 1: exit status 1: no such library"},
		"it says nothing, and fails": {[]string{"false"}, "", "host.version: false: exit status 1"},
		"it is not there":            {[]string{"no-such-program"}, "", `host.version: no-such-program: exec: "no-such-program"`},
	} {
		sys := vendors(t)
		sys.Host.Version, sys.Host.Env = c.command, map[string]string{"PLACE": "{{if .Dir}}at home{{end}}"}
		env, err := (&Stage{cfg: Config{System: sys}, dir: t.TempDir()}).Describe(t.Context())
		if err != nil || env.Program != c.says || !strings.HasPrefix(env.ProgramUnknown, c.unsaid) || (c.unsaid == "") != (env.ProgramUnknown == "") {
			t.Errorf("%s: %q, %q, %v", name, env.Program, env.ProgramUnknown, err)
		}
	}
	// What it leaves behind holds its output open, and nobody waits for that.
	got, err := version(t.Context(), system.Process{Command: []string{"sh", "-c", "sleep 1000 & echo $!"}})
	left, _ := strconv.Atoi(got)
	if err != nil || left == 0 {
		t.Fatalf("%q, %v", got, err)
	}
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}
