// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

func TestCheck(t *testing.T) {
	good := Config{Name: "a-1", Kubernetes: "1.34", Nodes: 3, KubeProxy: IPTables}
	with := func(change func(*Config)) Config {
		c := good
		change(&c)
		return c
	}
	for _, test := range []struct {
		name   string
		config Config
		want   string // part of the error; "" for none
	}{
		{"good", good, ""},
		{"no name", with(func(c *Config) { c.Name = "" }), "needs a name"},
		{"capital", with(func(c *Config) { c.Name = "A" }), "small letters"},
		{"underscore", with(func(c *Config) { c.Name = "a_b" }), "small letters"},
		{"dot", with(func(c *Config) { c.Name = "a.b" }), "small letters"},
		{"way out", with(func(c *Config) { c.Name = "../x" }), "small letters"},
		{"hyphen first", with(func(c *Config) { c.Name = "-a" }), "neither first nor last"},
		{"hyphen last", with(func(c *Config) { c.Name = "a-" }), "neither first nor last"},
		{"our prefix", with(func(c *Config) { c.Name = "lastcall-a" }), "leave \"lastcall-\" out"},
		{"longest", with(func(c *Config) { c.Name = strings.Repeat("a", 40) }), ""},
		{"too long", with(func(c *Config) { c.Name = strings.Repeat("a", 41) }), "41 characters long: 40"},
		{"patch release of ours", with(func(c *Config) { c.Kubernetes = "v1.34.4" }), ""},
		{"patch release of kind's", with(func(c *Config) { c.Kubernetes = "1.34.11" }), ""},
		{"every minor", with(func(c *Config) { c.Kubernetes = "1.37" }), ""},
		{"unknown minor", with(func(c *Config) { c.Kubernetes = "1.20" }), `version "1.20" of Kubernetes is not known here: there are 1.34, 1.34.11, 1.35, 1.35.8, 1.36, 1.36.4, 1.37, 1.37.0`},
		{"unknown patch", with(func(c *Config) { c.Kubernetes = "1.34.99" }), "is not known here"},
		{"no version", with(func(c *Config) { c.Kubernetes = "latest" }), "is not known here"},
		{"no version, with an image", with(func(c *Config) { c.Kubernetes, c.Image = "latest", "x" }), "write it like 1.34"},
		{"any version with an image", with(func(c *Config) { c.Kubernetes, c.Image = "1.29", "x" }), ""},
		{"negative", with(func(c *Config) { c.Nodes = -1 }), "-1 nodes: 1 to 9"},
		{"ten nodes", with(func(c *Config) { c.Nodes = 10 }), "10 nodes: 1 to 9"},
		{"one node", with(func(c *Config) { c.Nodes = 1 }), ""},
		{"family", with(func(c *Config) { c.IPFamily = "dual" }), ""},
		{"unknown family", with(func(c *Config) { c.IPFamily = "ipx" }), `IP family "ipx": ipv4, ipv6 and dual are possible`},
		{"family by number", with(func(c *Config) { c.IPFamily = "5" }), `IP family "5": ipv4, ipv6 and dual are possible`},
		{"nftables", with(func(c *Config) { c.KubeProxy = "nftables" }), ""},
		{"ipvs", with(func(c *Config) { c.KubeProxy = "ipvs" }), ""},
		{"unknown mode", with(func(c *Config) { c.KubeProxy = "foo" }), `kube-proxy mode "foo": iptables, nftables and ipvs are possible`},
		{"no kube-proxy", with(func(c *Config) { c.KubeProxy = "none" }), `kube-proxy mode "none"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.config.check()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			case err != nil && strings.Contains(err.Error(), "\n"):
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	if c := (Config{}).withDefaults(); c.Kubernetes != "1.34" || c.Nodes != 3 || c.KubeProxy != "iptables" || c.IPFamily != "" {
		t.Errorf("defaults %+v", c)
	}
	if c := (Config{Image: "x"}).withDefaults(); c.Kubernetes != "" {
		t.Errorf("with an image alone the version is the image's, not %q", c.Kubernetes)
	}
}

func TestAgree(t *testing.T) {
	for _, test := range []struct {
		wanted, is string
		want       bool
	}{
		{"1.34", "v1.34.4", true},
		{"v1.34.4", "v1.34.4", true},
		{"1.34.4", "v1.34.4", true},
		{"", "v1.30.0", true},
		{"1.3", "v1.34.4", false},
		{"1.34.4", "v1.34.41", false},
		{"1.35", "v1.34.4", false},
	} {
		err := agree(Config{Kubernetes: test.wanted}, record{Image: "i", Kubernetes: test.is})
		if (err == nil) != test.want {
			t.Errorf("wanted %q, is %q: %v", test.wanted, test.is, err)
		}
	}
}

func TestCheckKubeconfig(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"HOME": filepath.Join(dir, "home"), "KUBECONFIG": filepath.Join(dir, "one") + string(os.PathListSeparator) + filepath.Join(dir, "two")}
	for path, want := range map[string]string{
		"":                        "",
		filepath.Join(dir, "new"): "",
		there:                     "exists",
		filepath.Join(dir, "one"): "is your own",
		filepath.Join(dir, "two"): "is your own",
		filepath.Join(dir, "home", ".kube", "config"): "is your own",
	} {
		err := checkKubeconfig(path, func(key string) string { return environ[key] })
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("checkKubeconfig(%q) = %v, want %q", path, err, want)
		}
	}
}

func TestRender(t *testing.T) {
	for _, test := range []struct {
		golden, family, mode string
		nodes                int
		host                 host
	}{
		{"dual-restricted.yaml", Dual, IPTables, 3, host{cgroupV1: true, noResource: true}},
		{"ipv4-one-node.yaml", IPv4, IPVS, 1, host{}},
		{"ipv6.yaml", IPv6, NFTables, 2, host{}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			config := render(record{
				Nodes: test.nodes, Image: "lastcall.dev/node:v1.34.4-0123456789ab",
				IPFamily: test.family, KubeProxy: test.mode, Ranges: candidate(3, test.family),
			}, test.host)
			got, err := yaml.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", test.golden)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("kind's configuration (-golden +got):\n%s", diff)
			}
		})
	}
}
