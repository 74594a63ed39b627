// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestSpecFile(t *testing.T) {
	for _, test := range []struct {
		args string
		want spec
		none bool
	}{
		{args: "--root /r --log /l --log-format json create --bundle /b --pid-file /p id", want: spec{path: "/b/config.json"}},
		{args: "--root=/r run -b /b id", want: spec{path: "/b/config.json"}},
		{args: "create --bundle=/b id", want: spec{path: "/b/config.json"}},
		{args: "create id", want: spec{path: "config.json"}},
		{args: "--root /r exec --process /tmp/p.json --detach id", want: spec{path: "/tmp/p.json", process: true}},
		{args: "exec --process=/tmp/p.json id", want: spec{path: "/tmp/p.json", process: true}},
		{args: "exec id true", none: true},
		{args: "exec id -- sh --process x", none: true},
		{args: "--root /r delete --force id", none: true},
		{args: "state id", none: true},
		{args: "", none: true},
	} {
		t.Run(test.args, func(t *testing.T) {
			got, ok := specFile(strings.Fields(test.args))
			if ok == test.none {
				t.Fatalf("specFile found a file: %v (%+v), want %v", ok, got, !test.none)
			}
			if ok && got != test.want {
				t.Errorf("specFile = %+v, want %+v", got, test.want)
			}
		})
	}
}
