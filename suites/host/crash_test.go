// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"log"
	"os"
	"slices"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/packets"
	"github.com/lastcall-dev/lastcall/fixtures/zds"
)

// What an agent names to a proxy that asks is all that it holds, and nobody who asks is held up by that.
func TestNamed(t *testing.T) {
	dir, err := os.MkdirTemp("", "named") // a test's own folder may have a name that is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &nodeSide{dir: dir}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := n.named(over); err == nil {
		t.Errorf("without an agent %v are named", got)
	}
	l, err := packets.Listen(n.zds())
	if err != nil {
		t.Fatal(err)
	}
	agent := zds.NewServer(zds.ServerConfig{Log: log.New(t.Output(), "agent: ", 0)})
	served := make(chan error, 1)
	go func() { served <- agent.Serve(l) }()
	space, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	for _, uid := range []string{"a", "b"} {
		if err := agent.Hold(zds.Workload{UID: uid}, space); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got, err := n.named(t.Context()); err != nil || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("%v, %v", got, err)
		}
	}
	_ = l.Close()
	agent.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
