// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsDebian(t *testing.T) {
	for release, want := range map[string]bool{
		"NAME=\"Debian GNU/Linux\"\nID=debian\n": true,
		"ID=ubuntu\nID_LIKE=debian\n":            true,
		"ID=mint\nID_LIKE=\"ubuntu debian\"\n":   true,
		"ID=fedora\nNAME=debian\n":               false,
		"ID=alpine\nHOME_URL=https://debian/\n":  false,
		"":                                       false,
	} {
		if got := isDebian(release); got != want {
			t.Errorf("isDebian(%q) = %v, want %v", release, got, want)
		}
	}
}

func TestMissingPackages(t *testing.T) {
	for _, test := range []struct {
		have string
		want []string
	}{
		{have: "", want: []string{"docker.io", "runc", "iptables"}},
		{have: "docker", want: []string{"docker.io", "runc", "iptables"}},
		{have: "dockerd docker", want: []string{"runc", "iptables"}},
		{have: "dockerd runc iptables", want: []string{"docker.io"}},
		{have: "dockerd docker runc iptables", want: nil},
	} {
		got := missingPackages(func(program string) bool {
			return slices.Contains(strings.Fields(test.have), program)
		})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("with %q there, missing (-want +got):\n%s", test.have, diff)
		}
	}
}

const wholeDaemon = `{
  "default-runtime": "lastcall-capshim",
  "log-level": "warn",
  "runtimes": {
    "lastcall-capshim": {
      "path": "/usr/local/lib/lastcall/capshim"
    },
    "nvidia": {
      "path": "/n",
      "runtimeArgs": []
    }
  }
}
`

func TestMergeDaemon(t *testing.T) {
	for _, test := range []struct {
		name, before, want, wantErr string
	}{
		{
			name:   "what the user set stays",
			before: `{"log-level":"warn","runtimes":{"nvidia":{"path":"/n","runtimeArgs":[]}}}`,
			want:   wholeDaemon,
		},
		{name: "settings that have it come back byte for byte", before: strings.ReplaceAll(wholeDaemon, "  ", " "), want: strings.ReplaceAll(wholeDaemon, "  ", " ")},
		{
			name:   "a shim at another path is replaced",
			before: strings.ReplaceAll(wholeDaemon, shimFile, "/tmp/old"),
			want:   wholeDaemon,
		},
		{
			name:   "no file",
			before: "",
			want:   "{\n  \"default-runtime\": \"lastcall-capshim\",\n  \"runtimes\": {\n    \"lastcall-capshim\": {\n      \"path\": \"/usr/local/lib/lastcall/capshim\"\n    }\n  }\n}\n",
		},
		{name: "another default runtime is the user's choice", before: `{"default-runtime":"nvidia"}`, wantErr: `its default-runtime is "nvidia"`},
		{name: "half a file", before: `{"log-level":`, wantErr: "not a JSON object"},
		{name: "runtimes of another shape", before: `{"runtimes":[]}`, wantErr: "its runtimes are not a JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := mergeDaemon([]byte(test.before))
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("daemon.json (-want +got):\n%s", diff)
			}
		})
	}
}
