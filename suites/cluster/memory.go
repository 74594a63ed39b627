// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/observe"
)

// lookBudget bounds the look at the pod of an agent that was lost.
const lookBudget = 5 * time.Second

// killedForMemory is why something of ours is no more.
func killedForMemory(pod, container, limit string) string {
	at := "and its container has no limit"
	if limit != "" {
		at = "at its limit of " + limit
	}
	return fmt.Sprintf("it was killed for memory, %s (container %s of pod %s)", at, container, pod)
}

// lossOf is an event that says that something of ours was lost; memory: it was killed
// for its memory.
func lossOf(agent, why string, memory bool) timeline.Event {
	attrs := map[string]string{"agent": agent, "why": why}
	if memory {
		attrs["memory"] = "true"
	}
	return timeline.Event{At: timeline.Monotonic(), Source: "runner", Kind: timeline.AgentLost, Attrs: attrs}
}

// lookAfter asks for the pod of an agent that was lost: its state may say more than the
// error by which that was noticed. memory: it was killed for its memory.
func lookAfter(ctx context.Context, cs kubernetes.Interface, at types.NamespacedName, err error) (why string, memory bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookBudget)
	defer cancel()
	pod, unseen := cs.CoreV1().Pods(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if unseen != nil {
		return err.Error(), false
	}
	container, limit, ok := observe.KilledForMemory(pod)
	if !ok {
		return err.Error(), false
	}
	return fmt.Sprintf("%s: %v", killedForMemory(pod.Name, container, limit), err), true
}

// ownKill says that the watch shows a pod of ours whose container was killed for memory,
// and why; "" where that is none, or what is tested.
func (g *ground) ownKill(e timeline.Event) string {
	if e.Kind != timeline.PodContainer || e.Attrs["reason"] != timeline.ReasonOOMKilled {
		return ""
	}
	ours := e.Name == probeName || e.Name == scoutName || g.system.Before() && strings.HasPrefix(e.Name, backendName+"-")
	if !ours {
		return ""
	}
	return killedForMemory(e.Name, e.Attrs["container"], e.Attrs["limit"])
}

// noteKill tells of it, once for each pod.
func (g *ground) noteKill(e timeline.Event) {
	why := g.ownKill(e)
	if why == "" {
		return
	}
	g.mu.Lock()
	known := g.killed[e.Name] != ""
	if !known {
		if g.killed == nil {
			g.killed = map[string]string{}
		}
		g.killed[e.Name] = why
	}
	g.mu.Unlock()
	if !known {
		g.sink.Event(lossOf(e.Name, why, true))
	}
}

// because is an error of an agent's, behind what the watch says of its pod.
func (g *ground) because(err error) error {
	if err == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range []string{probeName, scoutName} {
		if why := g.killed[name]; why != "" {
			return fmt.Errorf("the agent %s is lost: %s: %w", name, why, err)
		}
	}
	return err
}
