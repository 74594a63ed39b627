// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolve(t *testing.T) {
	for _, in := range []string{"1.34", "v1.34", "1.34.4", "v1.34.4", " 1.34 "} {
		v, err := Resolve(in)
		if err != nil || v.Kubernetes != "v1.34.4" {
			t.Errorf("Resolve(%q) = %v, %v", in, v, err)
		}
	}
	for _, in := range []string{"", "1", "1.3", "1.34.5", "1.99", "latest", "vv1.34"} {
		_, err := Resolve(in)
		if err == nil {
			t.Errorf("Resolve(%q) succeeded", in)
			continue
		}
		if !strings.Contains(err.Error(), "known: 1.34 (v1.34.4), 1.35 (v1.35.4), 1.36 (v1.36.3), 1.37 (v1.37.2)") {
			t.Errorf("Resolve(%q): %v does not list what is known", in, err)
		}
	}
}

// What is listed can be had, in the order of the versions, and a minor once.
func TestSupportedResolve(t *testing.T) {
	if diff := cmp.Diff([]string{"1.34", "1.35", "1.36", "1.37"}, Supported()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, minor := range Supported() {
		v, err := Resolve(minor)
		if err != nil {
			t.Error(err)
		}
		if v.Minor() != minor {
			t.Errorf("Resolve(%s) is of %s", minor, v.Minor())
		}
		if err := v.check(); err != nil {
			t.Error(err)
		}
	}
}

func TestReference(t *testing.T) {
	v := table[0]
	ref := Reference(v)
	if !regexp.MustCompile(`^lastcall\.dev/node:v1\.34\.4-[0-9a-f]{12}$`).MatchString(ref) {
		t.Errorf("Reference = %s", ref)
	}
	if again := Reference(v); again != ref {
		t.Errorf("two references of one thing: %s, %s", ref, again)
	}
	if reference(v, "amd64") == reference(v, "arm64") {
		t.Error("one reference for two architectures")
	}
}

// Images are told apart by what is in them, and share what does not differ: the
// root, containerd, the plugins and podnet are built once for all rows.
func TestRowsShare(t *testing.T) {
	seen := map[string]int{}
	for _, v := range table {
		steps := plan(v, "amd64")
		keys := keysOf(steps)
		for _, s := range steps {
			seen[s.name+keys[s.name]]++
		}
	}
	keys := keysOf(plan(table[0], "amd64"))
	for name, want := range map[string]int{
		stepRoot: len(table), stepContainerd: len(table), stepPlugins: len(table), stepPodnet: len(table), stepBase: len(table),
		stepKubernetes: 1, stepPreload: 1, stepImage: 1,
	} {
		if got := seen[name+keys[name]]; got != want {
			t.Errorf("step %s is the same for %d rows, want %d", name, got, want)
		}
	}
}

// Each field of Versions changes the reference, those of later years too.
func TestReferenceDependsOnEveryVersion(t *testing.T) {
	ref := Reference(table[0])
	fields := reflect.TypeFor[Versions]()
	for i := range fields.NumField() {
		v := table[0]
		f := reflect.ValueOf(&v).Elem().Field(i)
		f.SetString(strings.Replace(f.String(), ".", ".9", 1))
		if Reference(v) == ref {
			t.Errorf("another %s, same reference", fields.Field(i).Name)
		}
	}
}

func TestCheckRefusesNoVersion(t *testing.T) {
	for _, bad := range []string{"", "latest", "v1.34", "v1.34.4\nreplace x => /", "1.34.4"} {
		v := table[0]
		v.Kubernetes = bad
		if err := v.check(); err == nil {
			t.Errorf("Kubernetes %q was taken for a version", bad)
		}
	}
}

// A changed embedded file is another image.
func TestDigest(t *testing.T) {
	seen := map[string]string{}
	for _, folder := range []string{"podnet", "unique", "pause", "manifests", "kubeproxy"} {
		d := digest(sub(folder))
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", folder, other)
		}
		seen[d] = folder
	}
}
