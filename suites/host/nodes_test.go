// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/enrolment"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/packets"
)

// The socket of an agent has a path that a kernel takes, whatever the run's folder is called: with the highest PID, the longest
// number that os.MkdirTemp gives, and as many systems as nobody tests at once.
func TestAgentsSocketFits(t *testing.T) {
	run := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-%d", folders, 1<<22, uint32(1<<32-1)))
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	for _, kind := range []disrupt.Kind{
		disrupt.ReplaceProxies, disrupt.HurryProxies, disrupt.RestartInPlace, disrupt.RuntimeCalls, disrupt.CrashNode, disrupt.RestartNode,
		disrupt.ReuseAddress, disrupt.Unenrol, disrupt.Delete, disrupt.Peers,
	} {
		recording := string(kind) + "-ffffff"
		n := &nodeSide{dir: filepath.Join(viewDir(run, 35), recording, host.Node(1))}
		path, err := enrolment.Socket(n.in(agents), recording)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		l, err := packets.Listen(path)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		_ = l.Close()
	}
}
