// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/fixtures/redirect"
)

func redirectCommand(stdout io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "redirect", Short: "Write the rules that bring a pod's connections to its sidecar: the init container", Args: cobra.NoArgs}
	var settings, hosts string
	f := c.Flags()
	f.StringVar(&settings, "settings", "{}", "what is left alone (redirect.Settings, in YAML)")
	f.StringVar(&hosts, "host-ips", os.Getenv("LASTCALL_HOST_IPS"), "addresses of the node, from which the kubelet probes: IP,IP; or LASTCALL_HOST_IPS")
	c.RunE = func(*cobra.Command, []string) error {
		var s redirect.Settings
		if err := yaml.UnmarshalStrict([]byte(settings), &s); err != nil {
			return usage("--settings: %w", err)
		}
		var err error
		if s.Probes.From, err = hostIPs(hosts); err != nil {
			return err
		}
		if err := s.Validate(); err != nil {
			return usageError{err}
		}
		if err := redirect.Apply(nil, s); err != nil {
			return err
		}
		state, err := redirect.Show(nil)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, state)
		return nil
	}
	return c
}

// hostIPs are a node's addresses, as a flag has them.
func hostIPs(text string) ([]netip.Addr, error) {
	var out []netip.Addr
	for one := range strings.SplitSeq(text, ",") {
		if one == "" {
			continue
		}
		ip, err := netip.ParseAddr(one)
		if err != nil {
			return nil, usage("--host-ips: %w", err)
		}
		out = append(out, ip)
	}
	return out, nil
}
