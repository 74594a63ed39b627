// SPDX-License-Identifier: Apache-2.0

package docker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/kind/docker"
)

func TestCommandErrorIsOneLine(t *testing.T) {
	err := &docker.CommandError{
		Args: []string{"run", "x"}, Err: errors.New("exit status 125"),
		Output: "docker: Error response: no\n\nRun 'docker run --help' for more information\n",
	}
	if got, want := err.Error(), "docker run x: exit status 125: docker: Error response: no"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

func TestAskSaysWhatIsMissing(t *testing.T) {
	t.Run("no client", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		if _, err := docker.Ask(context.Background()); !errors.Is(err, docker.ErrNoEngine) || !strings.Contains(err.Error(), "no docker client") {
			t.Errorf("Ask: %v", err)
		}
	})
}
