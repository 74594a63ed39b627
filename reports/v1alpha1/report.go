// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the report API: what one run of the suite found, where,
// and with what evidence. The YAML form is canonical; every other form of the
// report derives from it.
//
// Durations are strings as Go writes them, rounded to the microsecond
// ("1m2.5s", "340ms"). Instants are offsets from the T0 of their scenario.
// Rates and shares are plain numbers from 0 to 1. An instant that nobody saw
// is absent, never zero.
package v1alpha1

import (
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The type of the report's document.
const (
	APIVersion = "lastcall.dev/v1alpha1"
	Kind       = "ConformanceReport"
)

// The places of things in a report's directory.
const (
	// File holds the canonical form.
	File = "report.yaml"
	// HistoryDir holds one directory of raw histories for each scenario.
	HistoryDir = "history"
)

// ConformanceReport is what one run of the suite found.
type ConformanceReport struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	// Suite is what judged, Implementation is what was judged.
	Suite          Suite          `json:"suite"`
	Implementation Implementation `json:"implementation"`
	// Stage is where it ran: kind or cluster.
	Stage       string      `json:"stage"`
	Environment Environment `json:"environment"`
	Settings    Settings    `json:"settings"`
	// Propagation is T_lastnew - T_endpoint over all terminations of the run,
	// to be held against Settings.P.
	Propagation *Propagation `json:"propagation,omitempty"`
	// Egress is the proof that nothing left the machine. Absent on clusters
	// that the suite did not make.
	Egress     *Egress     `json:"egress,omitempty"`
	Scenarios  []Scenario  `json:"scenarios,omitempty"`
	Behaviours []Behaviour `json:"behaviours,omitempty"`
	// Unselected are the behaviours of the catalogue that the run was not asked for.
	Unselected []Unselected `json:"unselected,omitempty"`
	// Deviations are the known ones, as the system's file lists them.
	Deviations []Deviation `json:"deviations,omitempty"`
	Controls   []Control   `json:"controls,omitempty"`
	// Matrix is the kill matrix, in a run that proves the suite itself.
	Matrix *Matrix `json:"matrix,omitempty"`
	// Timing is what the run took.
	Timing *Timing `json:"timing,omitempty"`
	// Errors are what went wrong with the run as a whole.
	Errors []string `json:"errors,omitempty"`
	// Profiles, Summary, Verdict and ExitCode follow from the rest: see Conclude.
	Profiles []Profile    `json:"profiles,omitempty"`
	Summary  Summary      `json:"summary"`
	Verdict  spec.Verdict `json:"verdict"`
	ExitCode int          `json:"exitCode"`
}

// Metadata identifies a report.
type Metadata struct {
	Name string `json:"name"`
	// Date is when the run began, in UTC.
	Date time.Time `json:"date"`
	// Took is how long the run was, from its first step to its last.
	Took Duration `json:"took,omitempty"`
}

// Suite says which code judged.
type Suite struct {
	Version string `json:"version"`
	// Revision is the git commit that the binary was built from, or empty
	// where the build did not record it.
	Revision string `json:"revision,omitempty"`
	// Modified: the tree had changes that were not committed.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go,omitempty"`
}

// Implementation is the system under test.
type Implementation struct {
	Organization string   `json:"organization"`
	Project      string   `json:"project"`
	URL          string   `json:"url,omitempty"`
	Version      string   `json:"version"`
	Contact      []string `json:"contact,omitempty"`
}

// Environment is the machine and the cluster.
type Environment struct {
	Kubernetes       string   `json:"kubernetes"`
	Nodes            []Node   `json:"nodes,omitempty"`
	Kernel           string   `json:"kernel,omitempty"`
	Program          string   `json:"program,omitempty"`        // which version the system's program says it is (stage host)
	ProgramUnknown   string   `json:"programUnknown,omitempty"` // why it does not say so, where it was asked
	ContainerRuntime string   `json:"containerRuntime,omitempty"`
	KubeProxyMode    string   `json:"kubeProxyMode,omitempty"` // as kube-proxy says itself
	IPFamilies       []string `json:"ipFamilies,omitempty"`
	// TunnelDelay is how much later each packet of a tunnel arrives, one way (stage host).
	TunnelDelay Duration `json:"tunnelDelay,omitempty"`
	Images      []Image  `json:"images,omitempty"`
	NodeImage   string   `json:"nodeImage,omitempty"`
	CPUs        int      `json:"cpus,omitempty"` // of the machine that ran the suite
	// Load is the machine's one-minute load average, at the begin and at the
	// end of the run.
	Load *Load `json:"load,omitempty"`
}

// Node is one node of the cluster.
type Node struct {
	Name    string `json:"name"`
	Role    string `json:"role,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`
	// Kernel and Runtime stand here where the nodes differ.
	Kernel  string `json:"kernel,omitempty"`
	Runtime string `json:"runtime,omitempty"`
}

// Image is an image that the run used.
type Image struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest,omitempty"`
}

// Load is a load average: 1.0 is one busy core.
type Load struct {
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
	// Stolen is the share of the machine's CPU time that its host gave to
	// others during the run (steal, proc(5)), from 0 to 1.
	Stolen float64 `json:"stolen,omitempty"`
	// Speed is how much a core did, at the begin, of what one does of the machine that recordings are priced by: they were planned
	// for as much. 0: as much, or nobody measured it.
	Speed float64 `json:"speed,omitempty"`
}

// Settings are what the run was asked for.
type Settings struct {
	// P is the propagation window.
	P Duration `json:"p"`
	// Lag is how long the host stage's own service network takes to follow an
	// endpoint: what propagation is on a cluster.
	Lag Duration `json:"lag,omitempty"`
	// System is the name of the system's file; empty: the suite's reference was tested.
	System string `json:"system,omitempty"`
	// Profile is the size of the run: ci or full.
	Profile string   `json:"profile,omitempty"`
	Labels  []string `json:"labels,omitempty"`
	// Selected are behaviour IDs, where the run was limited to them.
	Selected []string   `json:"selected,omitempty"`
	Fault    spec.Fault `json:"fault,omitempty"`
	Isolate  bool       `json:"isolate,omitempty"`
	Strict   bool       `json:"strict,omitempty"`
}

// Propagation is how long new connections went on reaching an instance after
// its endpoint was published as terminating.
type Propagation struct {
	N      int      `json:"n"`
	Median Duration `json:"median"`
	Worst  Duration `json:"worst"`
}

// Egress is the proof that no packet of the cluster left the machine.
type Egress struct {
	// Dials to addresses of deleted pods that ended as "no route to host".
	NoRouteSameNode  int `json:"noRouteSameNode"`
	NoRouteOtherNode int `json:"noRouteOtherNode"`
	// Guard counts what the host's own rule rejected.
	GuardV4 GuardCounter `json:"guardV4"`
	GuardV6 GuardCounter `json:"guardV6"`
	// Packets of the pod, service and node ranges that a capture saw with the
	// same filter: none may be on the outer interface, some must be on the
	// cluster's bridge, or the filter proves nothing.
	OuterInterface string   `json:"outerInterface,omitempty"`
	OuterPackets   int      `json:"outerPackets"`
	BridgePackets  int      `json:"bridgePackets"`
	Filter         string   `json:"filter,omitempty"`
	Notes          []string `json:"notes,omitempty"`
}

// GuardCounter is the guard rule's counter around the dial that proves it.
type GuardCounter struct {
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
}

// Scenario is one recording.
type Scenario struct {
	Name       string `json:"name"`
	Topology   string `json:"topology"`
	Disruption string `json:"disruption"`
	// Recorded says from when to when, in UTC.
	Recorded Span `json:"recorded"`
	// History is the scenario's directory, from the report's own.
	History string `json:"history,omitempty"`
	// Picture is the timeline's picture, from the report's own directory.
	Picture      string        `json:"picture,omitempty"`
	Behaviours   []string      `json:"behaviours,omitempty"`
	Terminations []Termination `json:"terminations,omitempty"`
	// FailedSteps are what ends the system's instances (the steps of its file, on a
	// cluster its pods' preStop hooks) as far as it failed. Where a behaviour failed
	// too, it may be for that.
	FailedSteps []FailedStep `json:"failedSteps,omitempty"`
	// KilledForMemory are the containers, on a host the processes, that the kernel
	// killed for their memory, of the system and of the suite: what failed around then
	// may have failed for that.
	KilledForMemory []MemoryKill `json:"killedForMemory,omitempty"`
	// Connections is what became of those that were open to who terminated.
	Connections *Connections `json:"connections,omitempty"`
	Streams     []Stream     `json:"streams,omitempty"`
	Ledger      *Ledger      `json:"ledger,omitempty"`
	Pressure    []Pressure   `json:"pressure,omitempty"`
	// Fault is what broke the reference component in it.
	Fault  spec.Fault     `json:"fault,omitempty"`
	Timing ScenarioTiming `json:"timing"`
	// Notes say what the history lacks, and what is odd about it.
	Notes []string `json:"notes,omitempty"`
	// Error is why the scenario was not recorded to its end.
	Error string `json:"error,omitempty"`
}

// FailedStep is a step that failed, for one instance or for several.
type FailedStep struct {
	// Step is what was to be done, and Error what came of it the first time.
	Step  string `json:"step"`
	Error string `json:"error"`
	// Instances are those for which it failed, and Times how often it did.
	Instances []string `json:"instances"`
	Times     int      `json:"times"`
}

// MemoryKill is a container, on a host a process, that was killed for its memory.
type MemoryKill struct {
	Instance  string `json:"instance"`
	Container string `json:"container,omitempty"`
	// Limit is the container's, as its manifest has it; empty: it has none.
	Limit string `json:"limit,omitempty"`
	// At is when that was first seen, and Times how often it was.
	At    Duration `json:"at"`
	Times int      `json:"times"`
	// Likely: a SIGKILL ended it that is none of the suite's, while the kernel counted
	// kills for memory; which processes it killed, nobody says here.
	Likely bool `json:"likely,omitempty"`
}

// ScenarioTiming is what one recording took.
type ScenarioTiming struct {
	// Alone: nothing was recorded beside it.
	Alone bool     `json:"alone,omitempty"`
	Wall  Duration `json:"wall,omitempty"`
	// Gate is from the begin to the disturbance: bringing the pods up, the
	// steady gate and the baseline. What went up early and waited for those before it begins when its load may.
	Gate Duration `json:"gate,omitempty"`
	// Longest is the longest D to exit of its terminations.
	Longest Duration `json:"longest,omitempty"`
	// CPU is what its clients and backends used, as they say themselves.
	CPU Duration `json:"cpu,omitempty"`
	// Stolen is the share of the machine's CPU time that its host took for others
	// in the worst second of it, from 0 to 1.
	Stolen float64 `json:"stolen,omitempty"`
	// Waited is the share of its time in which something that could run waited for a
	// processor, and Late that of its requests which were sent late, from 0 to 1.
	Waited float64 `json:"waited,omitempty"`
	Late   float64 `json:"late,omitempty"`
	// Busy is above which limits that was, in words: then the machine was busy.
	Busy string `json:"busy,omitempty"`
	// Used is what the machine used in the baseline, in cores, all that runs on it; and P50
	// the median answer to short requests then, of those without a path's delay.
	Used float64  `json:"used,omitempty"`
	P50  Duration `json:"p50,omitempty"`
	// Lowered is the share of their rates that the streams had, where the machine has too
	// few cores for all; 0: all.
	Lowered float64 `json:"lowered,omitempty"`
	// Beyond is how many times what recordings may take together it was to take at these rates, by the prices; 0: no more.
	Beyond float64 `json:"beyond,omitempty"`
	// Before are earlier recordings of the same, on a busy machine, that proved nothing.
	Before []Attempt `json:"before,omitempty"`
}

// Attempt is a recording that was made again.
type Attempt struct {
	Recorded Span `json:"recorded"`
	// Why it proved nothing, and Busy what the machine was short of.
	Why  string `json:"why"`
	Busy string `json:"busy"`
	// History is its directory, from the report's own.
	History string `json:"history"`
}

// Timing is what a run's recordings took together.
type Timing struct {
	// Wall is from the first recording's begin to the last one's end.
	Wall Duration `json:"wall"`
	// Bound is what they can't take less than: gate + longest D-to-exit + P,
	// summed over what runs alone, plus the larger of the longest other
	// recording and of the others' CPU at Cores.
	Bound Duration `json:"bound"`
	// CPU is what the machine used while recordings ran side by side, by its own
	// account.
	CPU Duration `json:"cpu,omitempty"`
	// Cores is how much of the machine the recordings may take.
	Cores float64 `json:"cores"`
}

// Matrix is what became of the faults of a run that proves the suite itself.
type Matrix struct {
	// Kind is diagonal or full.
	Kind string      `json:"kind"`
	Rows []MatrixRow `json:"rows,omitempty"`
	// Killed are the behaviours that a fault of their own made fail.
	Killed []string `json:"killed,omitempty"`
	// Problems are cells that are not as they were written down, holes, and
	// behaviours that nothing tells apart. None may be left.
	Problems []string `json:"problems,omitempty"`
	// Doubts are cells that are Inconclusive and were not meant to be, or for
	// another reason: they prove nothing, for or against the suite.
	Doubts []string `json:"doubts,omitempty"`
	// Unput are the behaviours, and checks, that this stage can't carry, and why: another
	// stage's matrix is to prove them.
	Unput []string `json:"unput,omitempty"`
	// Unheld are expectations, by fault, that no cell of a whole matrix was held
	// against: notes, and nothing that is wrong.
	Unheld []string `json:"unheld,omitempty"`
}

// MatrixRow is one fault.
type MatrixRow struct {
	Fault     spec.Fault `json:"fault"`
	Component string     `json:"component,omitempty"`
	Does      string     `json:"does,omitempty"`
	// Cells are the behaviours of the scenarios that the fault was recorded
	// in; another behaviour's cell was not recorded.
	Cells []MatrixCell `json:"cells,omitempty"`
}

// MatrixCell is what one behaviour made of one fault.
type MatrixCell struct {
	Behaviour string       `json:"behaviour"`
	Scenario  string       `json:"scenario"`
	Verdict   spec.Verdict `json:"verdict"`
	// Expected was written down before; Why says why, where it is neither
	// the fault's own kill nor a pass.
	Expected spec.Verdict `json:"expected"`
	Why      string       `json:"why,omitempty"`
	// Reason and Culprits are the verdict's; Failed names the checks that failed.
	Reason   string   `json:"reason,omitempty"`
	Culprits int      `json:"culprits,omitempty"`
	Failed   []string `json:"failed,omitempty"`
	// Doubt: it is Inconclusive otherwise than it was written down.
	Doubt bool `json:"doubt,omitempty"`
}

// Span is a stretch of wall-clock time, for people: no verdict rests on it.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Termination is the clock of one instance's end. An instant that nobody saw
// is nil.
type Termination struct {
	Pod  string `json:"pod"`
	UID  string `json:"uid"`
	Node string `json:"node,omitempty"`
	IP   string `json:"ip,omitempty"`

	Deletion *Instant `json:"tDel,omitempty"`
	Drain    *Instant `json:"tDrain,omitempty"`
	Endpoint *Instant `json:"tEndpoint,omitempty"`
	LastNew  *Instant `json:"tLastNew,omitempty"`
	Exit     *Instant `json:"tExit,omitempty"`
	Net      *Instant `json:"tNet,omitempty"`
	// Kill is K, the instant of the kill.
	Kill *Instant `json:"k,omitempty"`
	// Propagation is T_lastnew - T_endpoint, and 0 where no new connection came
	// after T_endpoint. It is absent where nothing else was ready: then terminating
	// endpoints are used by the rule itself.
	Propagation *Duration `json:"propagation,omitempty"`

	ExitCode *int `json:"exitCode,omitempty"`
}

// Instant is an offset from the scenario's T0, its uncertainty to either
// side, and who saw it.
type Instant struct {
	At     Duration `json:"at"`
	Err    Duration `json:"err,omitempty"`
	Source string   `json:"source,omitempty"`
}

// Stream is what one flow of load saw.
type Stream struct {
	Name     string `json:"name"`
	Attempts int    `json:"attempts"`
	Failed   int    `json:"failed"`
	// Saturated attempts were sent late, or not at all, by the generator's own fault.
	Saturated int `json:"saturated,omitempty"`
	// Outcomes counts attempts by what became of them.
	Outcomes map[string]int `json:"outcomes,omitempty"`
	// P50 and P99 are latencies of the attempts that succeeded.
	P50 Duration `json:"p50,omitempty"`
	P99 Duration `json:"p99,omitempty"`
}

// Ledger is what the backends say, reconciled with what the clients say.
type Ledger struct {
	Begun int `json:"begun"`
	Done  int `json:"done"`
	// Lost: the client saw no answer and no signal that a retry is safe.
	Lost int `json:"lost"`
	// Duplicated: a request that may run once ran twice.
	Duplicated int `json:"duplicated"`
	// Unmatched: one side knows of a request that the other should know of.
	Unmatched int `json:"unmatched"`
	// Agrees: both sides tell the same of every request ID.
	Agrees bool `json:"agrees"`
}

// Pressure is the summary of the closed-loop load beside the probe's.
type Pressure struct {
	Name string `json:"name"`
	// Conns is how many connections it had, and QPS how many requests per second it
	// was to send over all of them together.
	Conns int     `json:"conns,omitempty"`
	QPS   float64 `json:"qps,omitempty"`
	// Lowered says why QPS is less than the profile asks for; empty: it is not.
	Lowered string   `json:"lowered,omitempty"`
	Took    Duration `json:"took,omitempty"`
	// Stopped is why it ended before the probe's streams; empty: it did not.
	Stopped string `json:"stopped,omitempty"`
	// Requests are all but WarmUps, the first of each connection.
	Requests int `json:"requests"`
	WarmUps  int `json:"warmUps,omitempty"`
	OK       int `json:"ok"`
	// Errors are the rest: SocketErrors of them had no answer, Statuses counts the
	// others by the status of their answers.
	Errors       int            `json:"errors"`
	SocketErrors int            `json:"socketErrors,omitempty"`
	Statuses     map[string]int `json:"statuses,omitempty"`
	// Sockets is how many connections it opened.
	Sockets int `json:"sockets,omitempty"`
	// The latencies are those of all requests.
	P50       Duration `json:"p50,omitempty"`
	P90       Duration `json:"p90,omitempty"`
	P99       Duration `json:"p99,omitempty"`
	Max       Duration `json:"max,omitempty"`
	Histogram []Bucket `json:"histogram,omitempty"`
	// Served is what the backends say of it; nil: nothing.
	Served *PressureServed `json:"served,omitempty"`
	// Warning: it met errors where the probe lost nothing.
	Warning string `json:"warning,omitempty"`
	// Error is why there is no summary.
	Error string `json:"error,omitempty"`
}

// Bucket is one of a histogram: how many took longer than the bucket before it, and no
// longer than UpTo.
type Bucket struct {
	UpTo  Duration `json:"upTo"`
	Count int      `json:"count"`
}

// PressureServed is the number of requests that the backends began to serve, beside
// what the client says of them: Count = OK + WarmUps + Rest.
type PressureServed struct {
	Count int `json:"count"`
	// AtLeast are the UIDs of backends that were killed before they could tell their
	// last number.
	AtLeast []string `json:"atLeast,omitempty"`
	// Rest was served, and no answer counts for it: the client, or who stands before the
	// backends, repeated it without a word, or the answer was lost on its way. A warm-up
	// that nobody served makes it one less, and AtLeast a lower bound.
	Rest int `json:"rest"`
}

// Behaviour is the verdict on one behaviour, or on one variant of it.
type Behaviour struct {
	ID      string     `json:"id"`
	Variant string     `json:"variant,omitempty"`
	Title   string     `json:"title"`
	Level   spec.Level `json:"level"`
	// Profile is which one it counts for.
	Profile spec.Profile `json:"profile,omitempty"`
	Refs    []spec.Ref   `json:"refs,omitempty"`

	Verdict spec.Verdict `json:"verdict"`
	// Warning: it failed, at a level where that does not fail the run.
	Warning bool `json:"warning,omitempty"`
	// Known: it failed, and the system's file lists that as a known deviation. It does
	// not change the exit code.
	Known    *Deviation `json:"known,omitempty"`
	Findings Findings   `json:"findings,omitempty"`
	// Reason is why it is Inconclusive, Error or Skipped.
	Reason string `json:"reason,omitempty"`
	// Skip is the kind of the reason for which it was skipped.
	Skip spec.SkipKind `json:"skip,omitempty"`
	// Scenario names the recording; Recorded says whether there is one.
	Scenario string `json:"scenario,omitempty"`
	Recorded bool   `json:"recorded"`

	// Why the rule exists, what usually breaks it, and what usually helps:
	// for the readers of a failure.
	Why    string `json:"why,omitempty"`
	Causes string `json:"causes,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// Name is the behaviour's ID with its variant.
func (b *Behaviour) Name() string {
	if b.Variant == "" {
		return b.ID
	}
	return b.ID + "[" + b.Variant + "]"
}

// LeftOut are the checks of a behaviour that was judged by others of its checks, and why these
// could not be put: "NAME: REASON".
func (b *Behaviour) LeftOut() []string {
	var out []string
	for _, f := range b.Findings {
		if b.Verdict != spec.Skipped && f.Verdict == spec.Skipped {
			out = append(out, f.Check+": "+f.Actual)
		}
	}
	return out
}

// Line is what decided, in one line: why nothing was concluded, which may begin with a
// violation that was seen all the same; else what the first finding with the verdict says.
func (b *Behaviour) Line() string {
	s := b.Reason
	for _, f := range b.Findings {
		if f.Verdict == b.Verdict && f.Actual != "" && (b.Verdict != spec.Inconclusive || s == "") {
			s = f.Actual
			break
		}
	}
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// Control is one proof that the suite can see (rule 8 of the design).
type Control struct {
	// Name is baseline or abrupt-kill.
	Name string `json:"name"`
	// Client and Path say whose eyes were tested, and on which way.
	Client  string       `json:"client,omitempty"`
	Path    string       `json:"path,omitempty"`
	Verdict spec.Verdict `json:"verdict"`
	// Attempts and Failed are what that client saw.
	Attempts int    `json:"attempts"`
	Failed   int    `json:"failed"`
	Reason   string `json:"reason,omitempty"`
}

// Summary counts the behaviours by verdict. Warnings and Known are among Failed.
type Summary struct {
	Passed       int `json:"passed"`
	Failed       int `json:"failed"`
	Inconclusive int `json:"inconclusive"`
	Errors       int `json:"errors"`
	Skipped      int `json:"skipped"`
	Warnings     int `json:"warnings"`
	Known        int `json:"known,omitempty"`
}
