// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"
	"strings"
)

// Connections says what became of connections that a client kept open to an
// instance through a Service, when that instance's endpoint was published as
// terminating. What is established is conntrack's business, and not only that
// of kube-proxy's rules: it may be cut, or left alone.
type Connections struct {
	// Terminations is how many had such connections.
	Terminations int `json:"terminations"`
	// Open were used before T_endpoint, and again or still after it.
	Open int `json:"open"`
	// Survived were answered whole by the same instance when it got no new
	// connections any more: after T_endpoint and after T_lastnew. An app that
	// asks its clients to leave ends the others before that, in good order.
	Survived int `json:"survived"`
	// Reset ended in an RST.
	Reset int `json:"reset"`
	// Cut ended without one, under a request that had begun: closed,
	// truncated or timed out.
	Cut int `json:"cut"`
}

// Add adds what another recording says.
func (c *Connections) Add(o Connections) {
	c.Terminations += o.Terminations
	c.Open += o.Open
	c.Survived += o.Survived
	c.Reset += o.Reset
	c.Cut += o.Cut
}

// services are the paths (flow.Path) on which a Service has all of its pods to
// choose from, so that nothing need fail while one of them is ready. On the
// others it may be right that an attempt fails: they ask for one instance or one
// node (direct, nodeport-local, service-local), are given pods that don't serve
// (publishing), or put a question about the pods (health, headless). The scout's
// own dials are no client's.
var services = []string{"service", "sticky", "nodeport", "balanced"}

// ThroughService says whether a stream's clients let a Service choose who
// answers.
func ThroughService(stream string) bool {
	path, _, named := strings.Cut(stream, "/")
	return named && slices.Contains(services, path) && !strings.Contains(stream, "@")
}
