// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// A pod of ours is told from one of what is tested: the app's own, where that is tested.
func TestOwnKill(t *testing.T) {
	ended := func(pod, reason, limit string) timeline.Event {
		return timeline.Event{Kind: timeline.PodContainer, Name: pod, Attrs: map[string]string{
			"container": "c", "state": "terminated", "exitCode": "137", "reason": reason, "limit": limit,
		}}
	}
	const oom = timeline.ReasonOOMKilled
	for name, tc := range map[string]struct {
		role system.Role
		e    timeline.Event
		want string
	}{
		"the probe":                        {system.App, ended("probe", oom, "512Mi"), "it was killed for memory, at its limit of 512Mi (container c of pod probe)"},
		"the scout, without a limit":       {system.App, ended("scout", oom, ""), "it was killed for memory, and its container has no limit (container c of pod scout)"},
		"the probe, by somebody":           {system.App, ended("probe", "Error", ""), ""},
		"the reference app":                {system.App, ended("echo-abc-x", oom, "512Mi"), ""},
		"a backend":                        {system.Gateway, ended("backend-abc-x", oom, "512Mi"), "it was killed for memory, at its limit of 512Mi (container c of pod backend-abc-x)"},
		"a gateway":                        {system.Gateway, ended("gateway-abc-x", oom, "128Mi"), ""},
		"what is said of it is no end":     {system.App, timeline.Event{Kind: timeline.PodSeen, Name: "probe"}, ""},
		"a pod of nobody's with that name": {system.App, ended("backend-abc-x", oom, "512Mi"), ""},
	} {
		g := &ground{system: behaviour.Subject{System: &system.System{Roles: []system.Role{tc.role}}}}
		if got := g.ownKill(tc.e); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Who meets an agent's end by an error says why it ended.
func TestBecause(t *testing.T) {
	refused := errors.New("connection refused")
	g := &ground{}
	if err := g.because(refused); err.Error() != "connection refused" {
		t.Errorf("of one that is well: %v", err)
	}
	g.killed = map[string]string{"backend-abc-x": "it was killed for another"}
	if err := g.because(refused); err.Error() != "connection refused" {
		t.Errorf("of another: %v", err)
	}
	g.killed["probe"] = "it was killed for memory"
	const want = "the agent probe is lost: it was killed for memory: connection refused"
	if err := g.because(refused); err.Error() != want || !errors.Is(err, refused) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := g.because(nil); err != nil {
		t.Error(err)
	}
}

// The pod of an agent that was lost says why.
func TestLookAfter(t *testing.T) {
	refused := errors.New("connection refused")
	pod := func(reason string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "witness-x"}}
		p.Spec.Containers = []corev1.Container{{Name: "witness", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "witness", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: reason}},
		}}
		return p
	}
	at := types.NamespacedName{Namespace: "ns", Name: "witness-x"}
	over, cancel := context.WithCancel(t.Context())
	cancel() // the run is over, and the pod is asked for all the same
	for name, tc := range map[string]struct {
		cs     *fake.Clientset
		why    string
		memory bool
	}{
		"killed for memory": {fake.NewClientset(pod(timeline.ReasonOOMKilled)), "it was killed for memory, at its limit of 512Mi (container witness of pod witness-x): connection refused", true},
		"ended otherwise":   {fake.NewClientset(pod("Error")), "connection refused", false},
		"gone":              {fake.NewClientset(), "connection refused", false},
	} {
		if why, memory := lookAfter(over, tc.cs, at, refused); why != tc.why || memory != tc.memory {
			t.Errorf("%s: %q %v, want %q", name, why, memory, tc.why)
		}
	}
}
