// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// told is the run that these arguments and this environment ask for.
func told(t *testing.T, args []string, env map[string]string) (Config, error) {
	t.Helper()
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	s := AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s.Config(func(name string) string { return env[name] })
}

func TestSettings(t *testing.T) {
	env := map[string]string{"LASTCALL_K8S": "1.35", "LASTCALL_NODES": "2", "LASTCALL_KUBE_PROXY": "nftables", "LASTCALL_KEEP": "true", "LASTCALL_P": "5s", "LASTCALL_IP": ""}
	got, err := told(t, []string{"-lastcall.k8s=1.36", "-lastcall.strict", "-lastcall.labels=core,pod", "-lastcall.out=o", "-lastcall.keep=false"}, env)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Stage: StageKind, Name: "lastcall", Kubernetes: "1.36", Nodes: 2, KubeProxy: "nftables", P: 5 * time.Second,
		Strict: true, Labels: []string{"core", "pod"}, Out: "o",
	}
	ignored := cmpopts.IgnoreFields(Config{}, "Planned", "Progress", "Say")
	if d := cmp.Diff(want, got, ignored, cmpopts.IgnoreUnexported(Config{})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got, err = told(t, []string{"-lastcall.stage=host", "-lastcall.lag=1s", "-lastcall.system=../systems/reference-gateway.yaml"}, nil); err != nil {
		t.Fatal(err)
	}
	if got.Lag != time.Second || got.Name != "" || got.System == nil || !strings.HasPrefix(got.Out, "lastcall-report/20") {
		t.Errorf("%+v", got)
	}
}

// All that is wrong is told at once, by the name under which it was said.
func TestWrongSettings(t *testing.T) {
	args := []string{"-lastcall.stage=host", "-lastcall.nodes=none", "-lastcall.labels=", "-lastcall.p=3", "-lastcall.name="}
	env := map[string]string{"LASTCALL_KUBECONFIG": "f", "LASTCALL_STRICT": "perhaps", "LASTCALL_SYSTEM": "nowhere.yaml", "LASTCALL_LAG": "-1s"}
	_, err := told(t, args, env)
	var usage *UsageError
	if !errors.As(err, &usage) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-lastcall.nodes=none: give a number from 1",
		"-lastcall.nodes belongs to stage kind, and this is stage host",
		"-lastcall.labels=: it has an empty value",
		"-lastcall.p=3: give a time above 0",
		"-lastcall.name=: it is empty",
		"LASTCALL_KUBECONFIG belongs to stage cluster, and this is stage host",
		"LASTCALL_STRICT=perhaps: it is true or false",
		"LASTCALL_SYSTEM=nowhere.yaml: ",
		"LASTCALL_LAG=-1s: give a time above 0",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	for want, args := range map[string][]string{
		`there is no stage "moon"`:                         {"-lastcall.stage=moon"},
		`there is no profile "big"`:                        {"-lastcall.profile=big"},
		`there is no matrix "half"`:                        {"-lastcall.matrix=half"},
		"no behaviour is called":                           {"-lastcall.behaviours=pod.nothing"},
		"the propagation window is 1ms":                    {"-lastcall.p=1ms"},
		"the balancer can't be 2m0s late":                  {"-lastcall.stage=host", "-lastcall.lag=2m"},
		`version "1.20" of Kubernetes is not known here`:   {"-lastcall.k8s=1.20"},
		"kube-proxy mode \"none\": iptables, nftables and": {"-lastcall.kube-proxy=none"},
	} {
		t.Setenv("XDG_STATE_HOME", t.TempDir())
		cfg, err := told(t, append(args, "-lastcall.out="+t.TempDir()), nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg = cfg.withDefaults()
		if _, _, err = cfg.validate(); err == nil {
			_, err = OpenStage(t.Context(), cfg)
		}
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// The guide lists each of them.
func TestSettingsAreDocumented(t *testing.T) {
	guide, err := os.ReadFile("../docs/vendors.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range table(&Config{}) {
		if !strings.Contains(string(guide), "`"+s.name+"`") {
			t.Errorf("docs/vendors.md does not name the setting %s", s.name)
		}
	}
}
