// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"os"
	"testing"

	"github.com/lastcall-dev/lastcall/suites"
)

// TestConformance is what a vendor's own test looks like. It needs a cluster:
//
//	LASTCALL_KUBECONFIG=F go test ./suites -run TestConformance -timeout 30m
func TestConformance(t *testing.T) {
	kubeconfig := os.Getenv("LASTCALL_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("no cluster: LASTCALL_KUBECONFIG names the kubeconfig of one that may be disturbed")
	}
	out := os.Getenv("LASTCALL_OUT")
	if out == "" {
		out = t.TempDir()
	}
	suites.Run(t, suites.Config{
		Stage: suites.StageCluster, Kubeconfig: kubeconfig, AgentImage: os.Getenv("LASTCALL_AGENT_IMAGE"),
		Labels: []string{"core"}, Out: out,
	})
}
