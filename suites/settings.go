// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/bench/delay"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// What the settings of a test begin with: k8s of `lastcall run --k8s` is the flag
// -lastcall.k8s and the variable LASTCALL_K8S.
const (
	flagPrefix = "lastcall."
	envPrefix  = "LASTCALL_"
)

// defaultName is the cluster's where none is given, as in `lastcall run`.
const defaultName = "lastcall"

// Settings are those of a test that is a run, from its flags and from the environment.
type Settings struct {
	flags *flag.FlagSet
}

// setting is one of them. They are all in the table below.
type setting struct {
	name   string   // as `lastcall run` calls its flag
	stages []string // that know it; none: all do
	help   string
	set    func(text string) error
	yes    bool // the flag alone means true
}

func (s setting) flag() string { return flagPrefix + s.name }

func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// table are the settings, each of which sets a field of a run.
func table(c *Config) []setting {
	onKind, onHost, onCluster := []string{StageKind}, []string{StageHost}, []string{StageCluster}
	file := func(text string) (err error) {
		c.System, err = system.Load(text)
		return err
	}
	matrix := func(text string) error {
		c.Matrix = behaviour.Matrix(text)
		return nil
	}
	return []setting{
		{name: "stage", help: "where to run: kind (a cluster is made, the default), cluster (of -lastcall.kubeconfig) or host (processes on this machine)", set: word(&c.Stage)},
		{name: "system", stages: slices.Concat(onHost, onKind), help: "file of the system to be tested; without one, the suite's reference", set: file},
		{name: "kubeconfig", stages: onCluster, help: "kubeconfig of the cluster", set: word(&c.Kubeconfig)},
		{name: "agent-image", stages: onCluster, help: "image of the suite's agents, where the cluster has it under another name", set: word(&c.AgentImage)},
		{name: "k8s", stages: onKind, help: "Kubernetes version, " + kind.DefaultKubernetes + " without one", set: word(&c.Kubernetes)},
		{name: "nodes", stages: onKind, help: "number of nodes, " + strconv.Itoa(kind.DefaultNodes) + " without one", set: number(&c.Nodes)},
		{name: "name", stages: onKind, help: "name of the cluster, " + defaultName + " without one", set: word(&c.Name)},
		{name: "ip", stages: slices.Concat(onKind, onHost), help: "IP family of pods and services, on a host of those of the mesh: ipv4, ipv6 or dual", set: word(&c.IPFamily)},
		{name: "kube-proxy", stages: onKind, help: "kube-proxy's mode: iptables, nftables or ipvs", set: word(&c.KubeProxy)},
		{name: "keep", stages: onKind, help: "leave the cluster running after the run", set: truth(&c.Keep), yes: true},
		{name: "labels", help: "behaviours with one of these labels, or of one of these areas", set: list(&c.Labels)},
		{name: "behaviours", help: "behaviours by ID; with labels, these too", set: list(&c.Behaviours)},
		{name: "fault", help: "break a part of the suite's own reference on purpose, to see a behaviour fail", set: word(&c.Fault)},
		{name: "matrix", help: "test the suite instead of a system: diagonal or full", set: matrix},
		{name: "isolate", help: "make a recording for each behaviour", set: truth(&c.Isolate), yes: true},
		{name: "wait-idle", stages: slices.Concat(onHost, onKind), help: "wait this long at most for this machine to be calm", set: span(&c.WaitIdle)},
		{name: "strict", help: "let a SHOULD that fails fail the run", set: truth(&c.Strict), yes: true},
		{name: "p", help: "propagation window P, 3s without one", set: span(&c.P)},
		{name: "lag", stages: onHost, help: "how long the stage's own balancer takes to follow an instance's readiness, 500ms without one", set: span(&c.Lag)},
		{name: "tunnel-delay", stages: onHost, help: "how much later each packet of a tunnel arrives between the pods of the mesh, one way, up to " + delay.Longest.String() + "; nothing without one", set: span(&c.TunnelDelay)},
		{name: "out", help: "directory for the report and the recordings; lastcall-report/<date> without one", set: word(&c.Out)},
		{name: "profile", help: "size of the run: ci, or full", set: word(&c.Profile)},
	}
}

// AddFlags gives fs, a test's flag.CommandLine, a flag for each setting of a run. It is
// to be called before the flags are read.
func AddFlags(fs *flag.FlagSet) *Settings {
	for _, s := range table(&Config{}) {
		help := s.help + " ($" + s.env() + ")"
		if len(s.stages) > 0 {
			help += " (stage " + strings.Join(s.stages, " or ") + ")"
		}
		if s.yes {
			fs.Bool(s.flag(), false, help)
		} else {
			fs.String(s.flag(), "", help)
		}
	}
	return &Settings{flags: fs}
}

// Config is the run that was asked for: by the flags, or where one was not given by the
// environment, as os.Getenv has it. A variable that is empty counts as none. An error
// tells all that is wrong.
func (s *Settings) Config(getenv func(string) string) (Config, error) {
	given := map[string]string{}
	s.flags.Visit(func(f *flag.Flag) { given[f.Name] = f.Value.String() })
	var c Config
	var bugs []error
	all, said := table(&c), map[string]string{}
	for _, one := range all {
		text, ok := given[one.flag()]
		source := "-" + one.flag()
		if !ok {
			if text, source = getenv(one.env()), one.env(); text == "" {
				continue
			}
		}
		said[one.name] = source
		if err := one.set(text); err != nil {
			bugs = append(bugs, fmt.Errorf("%s=%s: %w", source, text, err))
		}
	}
	c.Stage = cmp.Or(c.Stage, StageKind)
	for _, one := range all {
		if source := said[one.name]; source != "" && len(one.stages) > 0 && !slices.Contains(one.stages, c.Stage) {
			bugs = append(bugs, fmt.Errorf("%s belongs to stage %s, and this is stage %s", source, strings.Join(one.stages, " or "), c.Stage))
		}
	}
	if c.Stage == StageKind {
		c.Name = cmp.Or(c.Name, defaultName)
	}
	c.Out = cmp.Or(c.Out, filepath.Join("lastcall-report", time.Now().UTC().Format("20060102-150405")))
	if err := errors.Join(bugs...); err != nil {
		return Config{}, &UsageError{err}
	}
	return c, nil
}

func word(to *string) func(string) error {
	return func(text string) error {
		if text == "" {
			return errors.New("it is empty: give a value, or leave it out")
		}
		*to = text
		return nil
	}
}

func list(to *[]string) func(string) error {
	return func(text string) error {
		*to = strings.Split(text, ",")
		if slices.Contains(*to, "") {
			return errors.New("it has an empty value, which selects nothing: name something, or leave it out to run all")
		}
		return nil
	}
}

func number(to *int) func(string) error {
	return func(text string) (err error) {
		if *to, err = strconv.Atoi(text); err != nil || *to < 1 {
			return errors.New("give a number from 1")
		}
		return nil
	}
}

func truth(to *bool) func(string) error {
	return func(text string) (err error) {
		if *to, err = strconv.ParseBool(text); err != nil {
			return errors.New("it is true or false")
		}
		return nil
	}
}

func span(to *time.Duration) func(string) error {
	return func(text string) (err error) {
		if *to, err = time.ParseDuration(text); err != nil || *to <= 0 {
			return errors.New("give a time above 0, such as 500ms or 3s")
		}
		return nil
	}
}
