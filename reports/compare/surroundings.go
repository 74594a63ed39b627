// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// fact is something about a run that may explain why its verdicts differ.
type fact struct {
	name string
	of   func(*v1alpha1.ConformanceReport) string
	// short is how it names a report; nil: too long for that.
	short func(value string) string
}

func same(s string) string { return s }

func implementation(r *v1alpha1.ConformanceReport) string {
	return strings.TrimSpace(r.Implementation.Project + " " + r.Implementation.Version)
}

var facts = []fact{
	{"implementation", implementation, same},
	{"stage", func(r *v1alpha1.ConformanceReport) string { return r.Stage }, same},
	{"Kubernetes", func(r *v1alpha1.ConformanceReport) string { return r.Environment.Kubernetes },
		func(s string) string { return strings.TrimPrefix(s, "v") }},
	{"kube-proxy", func(r *v1alpha1.ConformanceReport) string { return r.Environment.KubeProxyMode }, same},
	{"IP families", func(r *v1alpha1.ConformanceReport) string { return strings.Join(r.Environment.IPFamilies, ", ") }, family},
	{"profile", func(r *v1alpha1.ConformanceReport) string { return r.Settings.Profile }, same},
	{"P", func(r *v1alpha1.ConformanceReport) string { return r.Settings.P.String() },
		func(s string) string { return "P=" + s }},
	{"lag", func(r *v1alpha1.ConformanceReport) string {
		if r.Settings.Lag == 0 {
			return ""
		}
		return r.Settings.Lag.String()
	}, func(s string) string { return "lag=" + s }},
	{"tunnel delay", func(r *v1alpha1.ConformanceReport) string {
		if r.Environment.TunnelDelay == 0 {
			return "none"
		}
		return r.Environment.TunnelDelay.String()
	}, func(s string) string { return "tunnels+" + s }},
	{"fault", func(r *v1alpha1.ConformanceReport) string { return cmp.Or(string(r.Settings.Fault), "none") },
		func(s string) string { return strings.Replace(s, "none", "no fault", 1) }},
	{"isolate", func(r *v1alpha1.ConformanceReport) string { return fmt.Sprint(r.Settings.Isolate) },
		func(s string) string {
			if s == "true" {
				return "isolate"
			}
			return "together"
		}},
	{"selected", func(r *v1alpha1.ConformanceReport) string {
		return strings.Join(slices.Concat(r.Settings.Labels, r.Settings.Selected), ", ")
	}, nil},
	{"nodes", func(r *v1alpha1.ConformanceReport) string { return fmt.Sprint(len(r.Environment.Nodes)) }, nil},
	{"node image", func(r *v1alpha1.ConformanceReport) string { return r.Environment.NodeImage }, nil},
	{"runtime", func(r *v1alpha1.ConformanceReport) string { return r.Environment.ContainerRuntime }, nil},
	{"kernel", func(r *v1alpha1.ConformanceReport) string { return r.Environment.Kernel }, nil},
	{"CPUs", func(r *v1alpha1.ConformanceReport) string { return fmt.Sprint(r.Environment.CPUs) }, nil},
	{"suite", func(r *v1alpha1.ConformanceReport) string {
		s := r.Suite.Version
		if r.Suite.Revision != "" {
			s += " " + r.Suite.Revision[:min(12, len(r.Suite.Revision))]
		}
		if r.Suite.Modified {
			s += ", modified"
		}
		return s
	}, nil},
}

// family writes "IPv4, IPv6" as people call it.
func family(s string) string {
	if strings.Contains(s, ",") {
		return "dual"
	}
	return strings.ToLower(s)
}

func (f fact) values(in []Input) []string {
	out := make([]string, len(in))
	for n, i := range in {
		out[n] = cmp.Or(f.of(i.Report), "unknown")
	}
	return out
}

func differ(values []string) bool {
	return slices.ContainsFunc(values, func(s string) bool { return s != values[0] })
}

// surroundings lists what differs around the runs.
func surroundings(in []Input) []Difference {
	var out []Difference
	for _, f := range facts {
		if values := f.values(in); differ(values) {
			out = append(out, Difference{Name: f.name, Values: values})
		}
	}
	return out
}

// name gives each report a name of what differs, "1.34 iptables", and a number
// where that does not tell it from the others.
func name(reports []Report, in []Input) {
	for _, f := range facts {
		values := f.values(in)
		if f.short == nil || !differ(values) {
			continue
		}
		for i := range values {
			values[i] = f.short(values[i])
		}
		if f.name == "Kubernetes" {
			values = minors(values)
		}
		for i := range reports {
			reports[i].parts = append(reports[i].parts, values[i])
		}
	}
	count, seen := map[string]int{}, map[string]int{}
	for i := range reports {
		reports[i].Name = strings.Join(reports[i].parts, " ")
		count[reports[i].Name]++
	}
	for i := range reports {
		r := &reports[i]
		if plain := r.Name; count[plain] > 1 {
			seen[plain]++
			number := fmt.Sprintf("run %d", seen[plain])
			r.parts = append(r.parts, number)
			r.Name = strings.Join(r.parts, " ")
		}
	}
}

// minors writes "1.34.4" as "1.34", unless that makes two versions one.
func minors(versions []string) []string {
	out, whole := make([]string, len(versions)), map[string]string{}
	for i, v := range versions {
		parts := strings.SplitN(v, ".", 3)
		out[i] = strings.Join(parts[:min(2, len(parts))], ".")
		if was, ok := whole[out[i]]; ok && was != v {
			return versions
		}
		whole[out[i]] = v
	}
	return out
}

// setting is what a finding about the service network depends on.
type setting struct{ Kubernetes, Proxy, Family string }

func settingOf(r *v1alpha1.ConformanceReport) setting {
	return setting{
		Kubernetes: minors([]string{strings.TrimPrefix(r.Environment.Kubernetes, "v")})[0],
		Proxy:      r.Environment.KubeProxyMode,
		Family:     family(strings.Join(r.Environment.IPFamilies, ", ")),
	}
}

func (s setting) String() string {
	return strings.Join(slices.DeleteFunc([]string{s.Kubernetes, s.Proxy, s.Family}, func(s string) bool { return s == "" }), " ")
}

// command makes such a report again. Of a cluster that the suite did not make
// only its owner knows how to make another.
func command(r *v1alpha1.ConformanceReport) string {
	if r.Stage != "kind" {
		return ""
	}
	s := settingOf(r)
	out := "make conformance"
	add := func(key, value string) {
		if value != "" {
			out += " " + key + "=" + value
		}
	}
	add("K8S", s.Kubernetes)
	add("KUBE_PROXY", s.Proxy)
	add("IP", s.Family)
	add("PROFILE", r.Settings.Profile)
	add("LABELS", strings.Join(r.Settings.Labels, ","))
	var args []string
	if len(r.Settings.Selected) > 0 {
		args = append(args, "--behaviours "+strings.Join(r.Settings.Selected, ","))
	}
	if r.Settings.Fault != "" {
		args = append(args, "--fault "+string(r.Settings.Fault))
	}
	if r.Settings.Isolate {
		args = append(args, "--isolate")
	}
	if len(args) > 0 {
		out += " ARGS='" + strings.Join(args, " ") + "'"
	}
	return out
}
