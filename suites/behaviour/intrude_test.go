// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"testing"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// A control is tried at the pod's own address, and by who asks for its loopback in a tunnel.
func TestTrespass(t *testing.T) {
	tunnel := load.Stream{Addr: "10.1.2.3:15008", Profile: load.Profile{Flow: flow.Flow{Protocol: flow.HBONE}}, Tunnel: load.Tunnel{To: "10.1.2.3:8080"}}
	asked := map[string]string{}
	got, err := Trespass(t.Context(), func(_ context.Context, s load.Stream, path string) (string, error) {
		asked[s.Addr] = s.Tunnel.To + path
		if s.Profile.Protocol == flow.HBONE {
			return "CONNECT: 403", nil
		}
		return "", nil
	}, tunnel, "10.1.2.3", 15000, "/drain")
	if err != nil || len(got) != 2 || got[0].Err != nil || got[0].To != "10.1.2.3:15000" || got[1].Err == nil || got[1].To != "127.0.0.1:15000 by CONNECT at 10.1.2.3:15008" {
		t.Errorf("%+v, %v", got, err)
	}
	if asked["10.1.2.3:15000"] != "/drain" || asked["10.1.2.3:15008"] != "127.0.0.1:15000/drain" || len(asked) != 2 {
		t.Errorf("%v", asked)
	}
	lost := func(context.Context, load.Stream, string) (string, error) { return "", errors.New("lost") }
	if got, err := Trespass(t.Context(), lost, tunnel, "10.1.2.3", 15000, "/drain"); err == nil {
		t.Errorf("nobody asked, and it is known: %+v", got)
	}
}
