// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures/programimage"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func newSystem() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "system",
		Short: "Write and check the file that describes a system under test",
		Long: `A system file says how a proxy or a server is started, where it listens, what it
can do, and how its own documentation ends it. With it the suite runs on that
system: as processes of this machine, lastcall run --stage host --system FILE; and
as pods, where it has a cluster part, lastcall run --stage kind --system FILE
(lastcall system image makes the image that needs no registry).`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSystemInit(), newSystemCheck(), newSystemImage(), newSystemSchema())
	return cmd
}

func newSystemInit() *cobra.Command {
	var output, role string
	cmd := &cobra.Command{
		Use:   "init [NAME]",
		Short: "Write a system file to begin with: valid as it stands, each field explained",
		Long: `Write a system file to begin with, valid as it stands. That of a gateway explains each field; those of
the other roles are short. A sidecar's comes with the patch of the pods that it is put into, and a
node proxy's with its DaemonSet: they stand beside it.`,
		Example: `  lastcall system init my-proxy -o my-proxy.yaml
  lastcall system init my-sidecar --role sidecar -o my-sidecar.yaml
  lastcall system check my-proxy.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := system.StarterName
			if len(args) == 1 {
				name = args[0]
			}
			files, err := system.Starter(system.Role(role), name)
			if err != nil {
				return err
			}
			if output == "" || output == "-" {
				if len(files) > 1 {
					return fmt.Errorf("a %s has %s beside its file: name that by -o, such as -o %s", role, files[1].Name, files[0].Name)
				}
				_, err = fmt.Fprint(cmd.OutOrStdout(), files[0].Text)
				return err
			}
			paths := []string{output}
			for _, f := range files[1:] {
				paths = append(paths, filepath.Join(filepath.Dir(output), f.Name))
			}
			for i, path := range paths { // before any is written
				if slices.Contains(paths[:i], path) {
					return fmt.Errorf("-o: %s is what stands beside it: name another file", path)
				}
				if _, err := os.Lstat(path); err == nil {
					return fmt.Errorf("-o: %s is there already, and is not written over: name another file", path)
				}
			}
			for i, path := range paths {
				if err := writeNew(path, files[i].Text); err != nil {
					return fmt.Errorf("-o: %w", err)
				}
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "lastcall: wrote %s: change what is not so, then `lastcall system check %s`\n", strings.Join(paths, " and "), output)
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", string(system.Gateway), "what the system is: "+strings.Join(system.StarterRoles(), ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `FILE`, which may not be there yet; - is standard output")
	return cmd
}

// writeNew writes a file that was not there.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and is not written over: name another file", path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func newSystemCheck() *cobra.Command {
	var render bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Tell all that is wrong with system files, or what they say",
		Long: `Check system files. Each mistake is a line: file, line, field, what is wrong, and
what to do. A file without mistakes is told in a few lines: what the system
claims, how an instance is started, and how it is ended. Nothing is started.

What may be meant so and mostly is not is a warning, on standard error: a listener
at all addresses, a minDrain that nothing gives, a program that is not on this machine,
pods in the network of their node.

Exit codes: 0 nothing is wrong; 2 something is.`,
		Args: some(1, "name a system file, or several: `lastcall system init` writes one to begin with"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var bad []error
			for _, path := range args {
				s, odd, err := system.Inspect(path)
				for _, m := range odd {
					fmt.Fprintf(cmd.ErrOrStderr(), "lastcall: warning: %s\n", m)
				}
				if err == nil {
					err = behaviour.Deviations(s)
				}
				if err == nil {
					if why := missing(s); why != "" {
						fmt.Fprintf(cmd.ErrOrStderr(), "lastcall: warning: %s: %s\n", path, why)
					}
					var told string
					if told, err = tell(s, render); err == nil {
						_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s", path, told)
					}
				}
				if err != nil {
					bad = append(bad, err)
				}
			}
			return errors.Join(bad...)
		},
	}
	cmd.Flags().BoolVar(&render, "render", false, "print configuration and manifests too, filled in for an instance with made-up addresses")
	return cmd
}

// missing says that a system's program is not on this machine; "" if it is.
func missing(s *system.System) string {
	if s.Host == nil || s.Reference() {
		return ""
	}
	p, err := s.Sample()
	if err != nil {
		return ""
	}
	// What it brings along is in a folder that there is not yet (system.Sample).
	absent := func(program string) bool {
		_, err := exec.LookPath(program)
		return err != nil && !strings.HasPrefix(program, "DIR/") && !strings.Contains(program, "{{")
	}
	if absent(p.Command[0]) {
		return fmt.Sprintf("%q is not on this machine: %s", p.Command[0], cmp.Or(s.Host.Needs, "install it, or write the whole path"))
	}
	for i, step := range s.Terminate {
		if len(step.Exec) > 0 && absent(step.Exec[0]) {
			return fmt.Sprintf("terminate[%d].exec: %q is not on this machine: install it, or write the whole path", i, step.Exec[0])
		}
	}
	return ""
}

func newSystemImage() *cobra.Command {
	return &cobra.Command{
		Use:   "image FILE",
		Short: "Pack the program that a system file starts into a container image",
		Long: `Make an image of the program of host.command, as it is installed on this machine:
the program, its loader and its libraries, and nothing else. It is called what
cluster.images names first, its stop signal is the signal of terminate, and the
container engine has it then, so that the system can be run as pods:
lastcall run --stage kind --system FILE. Who has an image of their own names that.`,
		Example: `  lastcall system image systems/haproxy.yaml
  lastcall run --stage kind --system systems/haproxy.yaml`,
		Args: one("file", "the system file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := system.Load(args[0])
			if err != nil {
				return err
			}
			o, err := imageOf(s)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if _, err := docker.Ask(cmd.Context()); err != nil {
				return err
			}
			archive, err := os.CreateTemp("", "lastcall-image-*.tar")
			if err != nil {
				return err
			}
			defer os.Remove(archive.Name())
			if err := errors.Join(programimage.Write(cmd.Context(), o, archive), archive.Close()); err != nil {
				return err
			}
			if _, err := docker.Output(cmd.Context(), "load", "--input", archive.Name()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "lastcall: the container engine has %s, of %s\n", o.Ref, o.Program)
			return err
		},
	}
}

// imageOf is what the image of a system's program is made of.
func imageOf(s *system.System) (programimage.Options, error) {
	if s.Host == nil || s.Cluster == nil || len(s.Cluster.Images) == 0 {
		return programimage.Options{}, errors.New("it takes host.command, whose program goes into the image, and cluster.images, which says what the image is called")
	}
	sample, err := s.Sample()
	if err != nil {
		return programimage.Options{}, err
	}
	o := programimage.Options{Ref: s.Cluster.Images[0], StopSignal: "SIG" + s.StopSignal()}
	if o.Program, err = exec.LookPath(sample.Command[0]); err != nil {
		return programimage.Options{}, fmt.Errorf("host.command: %w (%s)", err, cmp.Or(s.Host.Needs, "install it"))
	}
	return o, nil
}

func newSystemSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON schema of system files, for editors",
		Example: `  lastcall system schema > lastcall-system.json
  # then, as the first line of a system file:
  # yaml-language-server: $schema=lastcall-system.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), system.Schema)
			return err
		},
	}
}

// tell says what a system file says; with rendered, also its configuration as an instance
// would have it.
func tell(s *system.System, rendered bool) (string, error) {
	var out strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&out, "  %-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	i := s.Implementation
	fmt.Fprintf(&out, "%s is %s %s by %s\n", s.Metadata.Name, i.Project, i.Version, i.Organization)
	line("role", "%s; %d at a time, 8 in a rolling update; a new one comes up %s", joined(s.Roles), s.Instances, where(s.Successor))
	var claimed, open []string
	for _, f := range system.Features() {
		if s.Claims(f) {
			claimed = append(claimed, claim(s, f))
		} else if s.Lacks(f) != "" {
			open = append(open, string(f))
		}
	}
	line("claims", "%s", strings.Join(claimed, ", "))
	if len(open) > 0 {
		line("not", "%s: behaviours that need these are skipped", strings.Join(open, ", "))
	}
	if asks := asks(s); asks != "" {
		line("asked", "%s", asks)
	}
	var p system.Process
	if s.Host != nil {
		var err error
		if p, err = s.Sample(); err != nil {
			return "", err
		}
		line("host", "%s", strings.Join(p.Command, " "))
		if s.Host.Needs != "" {
			line("needs", "%s", s.Host.Needs)
		}
	}
	switch {
	case s.Patches():
		line("beside", "the suite's own app, by %s (%s)", strings.Join(append([]string{s.Cluster.Patch}, s.Cluster.Manifests...), ", "), s.Cluster.Form)
	case s.Cluster != nil:
		line("cluster", "%s", strings.Join(s.Cluster.Manifests, ", "))
	}
	for _, h := range []struct {
		what string
		get  *system.HTTPGet
	}{{"ready", s.Health.Ready}, {"live", s.Health.Live}, {"balancer", s.Health.LB}} {
		if h.get != nil {
			line(h.what, "when GET %s on port %s answers 200 to 399", h.get.Path, h.get.Port)
		}
	}
	steps := make([]string, len(s.Terminate))
	for n, step := range s.Terminate {
		steps[n] = step.String()
	}
	line("ended by", "%s", strings.Join(steps, ", then "))
	cuts := fmt.Sprintf("cuts what is in flight at %s", s.Drain.Timeout)
	if s.Drain.Timeout == system.NoTimeout {
		cuts = "promises no time at which it cuts what is in flight"
	}
	line("times", "accepts for %s, %s, killed at %s, all from the first step", s.Drain.MinDrain, cuts, s.Drain.Grace)
	for _, d := range s.Deviations {
		line("known", "to break %s: %s", d.Behaviour, v1alpha1.Deviation{Reason: d.Reason, Link: d.Link})
	}
	if rendered {
		if s.Patches() {
			patch, err := s.SamplePatch()
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, "\n--- %s\n%s", s.Cluster.Patch, patch)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Files)) {
			fmt.Fprintf(&out, "\n--- DIR/%s\n%s", name, p.Files[name])
		}
		if s.Cluster != nil {
			manifests, err := s.SampleManifests()
			if err != nil {
				return "", err
			}
			for _, name := range s.Cluster.Manifests {
				fmt.Fprintf(&out, "\n--- %s\n%s", name, manifests[name])
			}
		}
	}
	return out.String(), nil
}

// asks says what an app is asked for; "" for a gateway, which passes on what is asked of backends, and
// for a sidecar, beside which the suite's own app is asked.
func asks(s *system.System) string {
	switch {
	case s.Stands().Before, s.Patches():
		return ""
	case s.App == nil:
		return "in the suite's own words (load/work); any other app says which paths it is asked for, in app"
	}
	var out []string
	for _, g := range s.App.Get {
		out = append(out, fmt.Sprintf("%s (%d)", g.Path, g.Good()))
	}
	if s.App.Slow != "" {
		return strings.Join(out, ", ") + "; what takes a while: " + s.App.Slow
	}
	return strings.Join(out, ", ") + "; nothing that takes a while, and so nothing on kept connections: write app.slow"
}

func where(s system.Successor) string {
	if s == system.InPlace {
		return "in the old one's place, after it has left"
	}
	return "besides the old one"
}

// claim is a feature and where it is asked for.
func claim(s *system.System, f spec.Feature) string {
	name := system.Port(f)
	switch {
	case name == "":
		return string(f)
	case s.Ports[name] == 0:
		return fmt.Sprintf("%s (%s, a free port)", f, name)
	default:
		return fmt.Sprintf("%s (%s, port %d)", f, name, s.Ports[name])
	}
}
