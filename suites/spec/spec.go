// SPDX-License-Identifier: Apache-2.0

// Package spec holds the words of the suite: levels, references, verdicts and
// findings. It is a leaf: anyone may import it, and it imports nothing of ours.
package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Level says how binding a behaviour is. The words are those of RFC 2119.
type Level string

// The levels, and what a failure of each costs.
const (
	// Must makes the run fail (exit code 1).
	Must Level = "MUST"
	// Should is a warning, unless the run is strict.
	Should Level = "SHOULD"
	// May is reported and costs nothing.
	May Level = "MAY"
	// Control proves that the suite can see: a control that fails makes what
	// leans on it Inconclusive.
	Control Level = "CONTROL"
)

// Ref is the normative basis of a behaviour.
type Ref struct {
	// Doc names the document: "RFC 9112", "KEP-1672", or "project" where no
	// norm exists and the rule is ours.
	Doc string `json:"doc"`
	// Section is the place in the document, as the document itself counts.
	Section string `json:"section,omitempty"`
	// URL leads to the document, where it has one.
	URL string `json:"url,omitempty"`
	// Quote is the sentence, word for word.
	Quote string `json:"quote"`
}

func (r Ref) String() string {
	if r.Section == "" {
		return r.Doc
	}
	return r.Doc + ", " + r.Section
}

// Feature is something that a system or a stage can do and a behaviour needs.
type Feature string

// The features of this version.
const (
	// HTTP: any of the four ways that HTTP is asked for. It is needed, and not
	// claimed: what a system does not take in one version, it is sent in the other.
	HTTP  Feature = "HTTP"
	HTTP1 Feature = "HTTP1"
	H2C   Feature = "H2C"
	// TLS: HTTP/1.1 in TLS, and HTTP/2 by ALPN where HTTP2 is claimed too.
	TLS   Feature = "TLS"
	HTTP2 Feature = "HTTP2"
	// WebSocket, GRPC and TCP pass through what speaks them; TCP is opaque.
	WebSocket Feature = "WebSocket"
	GRPC      Feature = "GRPC"
	TCP       Feature = "TCP"
	// BackendTLS: requests of HTTP/1.1 to a port of their own go on to the backends in TLS.
	BackendTLS Feature = "BackendTLS"
	// HBONE: connections to the app come in CONNECT streams of HTTP/2, in mutual TLS.
	HBONE Feature = "HBONE"
	// LBHealth: a path that a load balancer in front asks for the system's
	// health. A system has it by naming it (health.lb).
	LBHealth Feature = "LBHealth"
	// Admin: a request that begins the system's drain, or ends it. A system has
	// it by naming one (a step of terminate, or admin).
	Admin    Feature = "Admin"
	Pods     Feature = "Pods"     // the stage has a kubelet
	Services Feature = "Services" // the stage has a service network
	// OutsideClient: the stage has a client that is no pod and on no node.
	OutsideClient Feature = "OutsideClient"
	// KubeProxy: the service network is kube-proxy, and may be restarted.
	KubeProxy Feature = "KubeProxy"
	// ClusterDNS: a name server answers for the cluster's Services.
	ClusterDNS Feature = "ClusterDNS"
	// NodeShutdown: nodes hold their shutdown up for their pods, and the suite
	// may shut one down.
	NodeShutdown Feature = "NodeShutdown"
	// ControlPlane: the suite may take the control plane away for a moment.
	ControlPlane Feature = "ControlPlane"
	// Bench: the stage makes the nodes and the pods itself, is their container runtime, and sees into their networks.
	Bench Feature = "Bench"
	// Wire: somebody sees what passes between the nodes' pods.
	Wire Feature = "Wire"
	// Knocks: the stage knocks at a workload's ports while its node's proxy is replaced, from within its network too.
	Knocks Feature = "Knocks"
)

// Profile is a group of behaviours that one kind of system answers for: what a
// report states is stated of each of them.
type Profile string

// The profiles of this version. The area that an ID begins with decides: see
// ProfileOf.
const (
	// App is what a workload owes its clients: pod.*, rollout.*.
	App Profile = "app"
	// ServiceNetwork is what whoever carries clients to pods owes both: endpoints.*.
	ServiceNetwork Profile = "service-network"
	// Mesh is what a data path beside its app or on its node, and who puts it there, owe that app and their peers:
	// sidecar.*, node.*, cni.*, controller.*, hbone.*.
	Mesh Profile = "mesh"
	// Gateway is what whoever stands between clients and backends owes both: the rest.
	Gateway Profile = "gateway"
)

// areas are what each profile has, in the order in which profiles are told; the
// last one has the rest.
var areas = []struct {
	profile Profile
	areas   []string
}{
	{App, []string{"pod", "rollout"}},
	{ServiceNetwork, []string{"endpoints"}},
	{Mesh, []string{"sidecar", "node", "cni", "controller", "hbone"}},
	{Gateway, nil},
}

// Profiles are all of them, in the order in which they are told.
func Profiles() []Profile {
	var out []Profile
	for _, p := range areas {
		out = append(out, p.profile)
	}
	return out
}

// ProfileOf is the profile of a behaviour, by its ID.
func ProfileOf(id string) Profile {
	area, _, _ := strings.Cut(id, ".")
	for _, p := range areas {
		if slices.Contains(p.areas, area) {
			return p.profile
		}
	}
	return Gateway
}

// Covers says which behaviours a profile has, for people.
func (p Profile) Covers() string {
	for _, a := range areas {
		if a.profile == p && len(a.areas) > 0 {
			return strings.Join(a.areas, ".*, ") + ".*"
		}
	}
	return "all other areas"
}

// SkipKind says for which kind of reason a behaviour was skipped. What a
// statement counts in a system's favour is Unclaimed alone.
type SkipKind string

// The kinds of this version. Reports of before have none.
const (
	// Unclaimed: it needs a feature that the system does not claim.
	Unclaimed SkipKind = "unclaimed"
	// OtherRole: it is about a role that the system does not have.
	OtherRole SkipKind = "role"
	// Uncarried: the stage can't carry it, or not with this system.
	Uncarried SkipKind = "stage"
	// Moot: what the rule is about did not come up in the recording.
	Moot SkipKind = "moot"
)

// Fault names a switch in a reference component that breaks one behaviour on
// purpose. The zero value is the healthy component.
type Fault string

// Verdict is what the recorded evidence says of one behaviour. The zero value
// is Inconclusive: what was not shown is not passed.
type Verdict int

// The verdicts.
const (
	Inconclusive Verdict = iota
	Skipped
	Pass
	Error
	Fail
)

var verdictNames = map[Verdict]string{
	Inconclusive: "Inconclusive",
	Skipped:      "Skipped",
	Pass:         "Pass",
	Error:        "Error",
	Fail:         "Fail",
}

func (v Verdict) String() string {
	if n, ok := verdictNames[v]; ok {
		return n
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's name.
func (v *Verdict) UnmarshalText(b []byte) error {
	for k, n := range verdictNames {
		if n == string(b) {
			*v = k
			return nil
		}
	}
	return fmt.Errorf("no verdict is called %q", b)
}

// rank orders verdicts: Fail > Error > Inconclusive > Pass > Skipped.
func (v Verdict) rank() int {
	switch v {
	case Fail:
		return 4
	case Error:
		return 3
	case Pass:
		return 1
	case Skipped:
		return 0
	default:
		return 2
	}
}

// Worse returns the verdict that wins when two are merged:
// Fail > Error > Inconclusive > Pass > Skipped.
func Worse(a, b Verdict) Verdict {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// Window is a stretch of the timeline: offsets from T0.
type Window struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
}

// Contains says whether t lies in the window, ends included.
func (w Window) Contains(t time.Duration) bool { return t >= w.From && t <= w.To }

// Culprit is one piece of evidence against a system.
type Culprit struct {
	// At is the offset from T0.
	At time.Duration `json:"at"`
	// Target names the instance, in words a person knows it by.
	Target string `json:"target,omitempty"`
	// ID is the request ID, or empty when the evidence is no request.
	ID string `json:"id,omitempty"`
	// Text says what was seen.
	Text string `json:"text"`
}

// Count is a named number of evidence beside the floor that it had to reach.
type Count struct {
	// Of is what it is counted apart for: a way to end a pod, say, or a path;
	// empty: there is one count for all.
	Of string `json:"of,omitempty"`
	// Name is what is counted.
	Name string `json:"name"`
	// At is the target that has the fewest, where each has to reach the floor.
	At    string `json:"at,omitempty"`
	N     int    `json:"n"`
	Floor int    `json:"floor"`
}

// What says what was counted: "evict: new connections, the fewest at echo-1".
func (c Count) What() string {
	what := c.Name
	if c.Of != "" {
		what = c.Of + ": " + what
	}
	if c.At != "" {
		what += ", the fewest at " + c.At
	}
	return what
}

// Met says whether the evidence suffices.
func (c Count) Met() bool { return c.N >= c.Floor }

// Claimed is the check that what a system's file claims is there at all.
const Claimed = "claimed"

// Finding is what one check says of one recording.
type Finding struct {
	// Check names the check that speaks.
	Check string `json:"check"`
	// Verdict is its verdict.
	Verdict Verdict `json:"verdict"`
	// Expected is what would have been accepted.
	Expected string `json:"expected"`
	// Actual is what was seen.
	Actual string `json:"actual"`
	// Window is the stretch that was judged.
	Window Window `json:"window"`
	// Evidence is what stands behind the verdict.
	Evidence []Count `json:"evidence,omitempty"`
	// Bounds say how sure the verdict is.
	Bounds *Bounds `json:"bounds,omitempty"`
	// Culprits are the first samples or events that broke the rule.
	Culprits []Culprit `json:"culprits,omitempty"`
	// MoreCulprits is how many were seen beyond those listed.
	MoreCulprits int `json:"moreCulprits,omitempty"`
	// Certain says that one culprit at least is one that no lack of CPU makes. It is for who judges; a report
	// has no use of it.
	Certain bool `json:"-"`
	// Cause is what may have caused a failure, with what was seen of it in the recording;
	// empty: nothing was seen.
	Cause string `json:"cause,omitempty"`
}

// Bounds are the 95% bounds of a loss rate. Losses come in clusters, one for
// each termination, so both are given.
type Bounds struct {
	// Terminations is k, and Affected how many of them lost anything.
	Terminations int `json:"terminations"`
	Affected     int `json:"affected"`
	// PerTermination is the upper bound of the share of terminations that
	// lose something: 3/k when none did, Clopper-Pearson otherwise.
	PerTermination float64 `json:"perTermination"`
	// PerTerminationAtLeast is the lower bound of that share; 0 when none did.
	PerTerminationAtLeast float64 `json:"perTerminationAtLeast,omitempty"`
	// Requests is n, and Lost how many of them were lost.
	Requests int `json:"requests"`
	Lost     int `json:"lost"`
	// PerRequest is the upper bound of the loss rate within these k
	// terminations: 3/n when none was lost.
	PerRequest float64 `json:"perRequest"`
	// PerRequestAtLeast is the lower bound of that rate; 0 when none was lost.
	PerRequestAtLeast float64 `json:"perRequestAtLeast,omitempty"`
}
