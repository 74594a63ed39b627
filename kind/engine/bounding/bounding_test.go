// SPDX-License-Identifier: Apache-2.0

package bounding_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/kind/engine/bounding"
)

func TestStrip(t *testing.T) {
	set := bounding.Set{"CAP_CHOWN": true, "CAP_SYS_ADMIN": true, "CAP_SYS_RESOURCE": false}
	for _, test := range []struct {
		name    string
		process bool
		in      string
		want    string
		removed []string
	}{
		{
			name:    "config: every list loses what is lacking, the rest passes",
			in:      `{"ociVersion":"1.0.2","process":{"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"],"effective":["CAP_SYS_RESOURCE","CAP_SYS_ADMIN"]},"rlimits":[{"type":"RLIMIT_NOFILE","hard":18446744073709551615}],"args":["a<b"]}}`,
			want:    `{"ociVersion":"1.0.2","process":{"args":["a<b"],"capabilities":{"bounding":["CAP_CHOWN"],"effective":["CAP_SYS_ADMIN"]},"rlimits":[{"hard":18446744073709551615,"type":"RLIMIT_NOFILE"}]}}`,
			removed: []string{"CAP_SYS_RESOURCE"},
		},
		{
			name: "config: nothing lacking, byte for byte the same",
			in:   `{ "process": {"capabilities": {"bounding": ["CAP_CHOWN"]}} }`,
			want: `{ "process": {"capabilities": {"bounding": ["CAP_CHOWN"]}} }`,
		},
		{
			name: "config: a capability that this kernel does not know is runc's business",
			in:   `{"process":{"capabilities":{"bounding":["CAP_OF_TOMORROW"]}}}`,
			want: `{"process":{"capabilities":{"bounding":["CAP_OF_TOMORROW"]}}}`,
		},
		{
			name: "config: no process, no capabilities",
			in:   `{"ociVersion":"1.0.2"}`,
			want: `{"ociVersion":"1.0.2"}`,
		},
		{
			name:    "process: the lists are at the top",
			process: true,
			in:      `{"capabilities":{"ambient":["CAP_SYS_RESOURCE"],"permitted":null},"cwd":"/"}`,
			want:    `{"capabilities":{"ambient":[],"permitted":null},"cwd":"/"}`,
			removed: []string{"CAP_SYS_RESOURCE"},
		},
		{
			name: "config: the lists at the top are not a config's",
			in:   `{"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}`,
			want: `{"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			strip := set.StripConfig
			if test.process {
				strip = set.StripProcess
			}
			got, removed, err := strip([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, strings.TrimSuffix(string(got), "\n")); diff != "" {
				t.Errorf("stripped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.removed, removed); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStripRefusesWhatIsNoSpec(t *testing.T) {
	if _, _, err := (bounding.Set{}).StripConfig([]byte("{")); err == nil {
		t.Error("half a JSON object was accepted")
	}
}

func TestLacking(t *testing.T) {
	set := bounding.Set{"CAP_SYS_RESOURCE": false, "CAP_CHOWN": true, "CAP_BPF": false}
	if diff := cmp.Diff([]string{"CAP_BPF", "CAP_SYS_RESOURCE"}, set.Lacking()); diff != "" {
		t.Errorf("lacking (-want +got):\n%s", diff)
	}
}
