// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
)

// agentBinary is where the agent's image has it.
const agentBinary = "/agent"

// signalInside sends a signal to the app from inside its pod, whose processes
// are shared: on clusters whose nodes have no witness of ours.
func (g *ground) signalInside(ctx context.Context, podUID, signal string) error {
	cs := g.stage.cs
	pods, err := cs.CoreV1().Pods(g.scope.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("finding the pod: %w", err)
	}
	for _, p := range pods.Items {
		if string(p.UID) != podUID {
			continue
		}
		req := cs.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: echoName, Command: []string{agentBinary, "signal", "--role=echo", "--signal=" + signal},
				Stdout: true, Stderr: true,
			}, scheme.ParameterCodec)
		exec, err := remotecommand.NewSPDYExecutor(g.stage.cfg.Rest, "POST", req.URL())
		if err != nil {
			return fmt.Errorf("exec in %s: %w", p.Name, err)
		}
		var said bytes.Buffer
		err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &said, Stderr: &said})
		if err != nil && !(signal == "KILL" && endedByKill(err)) {
			return fmt.Errorf("signal %s in %s: %w: %s", signal, p.Name, err, strings.TrimSpace(said.String()))
		}
		return nil
	}
	return fmt.Errorf("no pod of %s has the UID %s", g.scope.Namespace, podUID)
}

// endedByKill says whether a command failed as one does that ends its own container
// before its end is told: whether the signal hit is seen by the restart that is
// waited for. What kept it from being run at all is not of that kind.
func endedByKill(err error) bool {
	var refused apierrors.APIStatus
	if errors.As(err, &refused) || strings.Contains(err.Error(), "unable to upgrade connection") {
		return false
	}
	var exit utilexec.ExitError
	return !errors.As(err, &exit) || exit.ExitStatus() == killedStatus
}

// killedStatus is what a shell says of what SIGKILL ended: 128 + 9.
const killedStatus = 137
