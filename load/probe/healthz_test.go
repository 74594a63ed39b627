// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// proxyHealth is what kube-proxy answers with.
const proxyHealth = `{"service": {"namespace": "ns", "name": "nodeport-local"}, "localEndpoints": 1, "serviceProxyHealthy": true}`

func TestCheckOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		want   want
		answer string
	}{
		"200": {want{timeline.OK, timeline.PhaseDone, 200, int64(len(proxyHealth)), false},
			fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(proxyHealth), proxyHealth)},
		"200 up to the connection's end": {want{timeline.OK, timeline.PhaseDone, 200, int64(len(proxyHealth)), true},
			"HTTP/1.1 200 OK\r\n\r\n" + proxyHealth},
		"503": {want{timeline.Status, timeline.PhaseDone, 503, 0, false},
			fmt.Sprintf("HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%s", len(proxyHealth), proxyHealth)},
		"204": {want{timeline.Status, timeline.PhaseDone, 204, 0, false}, "HTTP/1.1 204 No Content\r\n\r\n"},
		"cut": {want{timeline.Truncated, timeline.PhaseBody, 200, int64(len(proxyHealth)), false},
			"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + proxyHealth},
		"endless": {want{timeline.Malformed, timeline.PhaseBody, 200, maxRest, true},
			"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 2*maxRest)},
		"nothing": {want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			addr := accept(t, func(_ int, conn *net.TCPConn) {
				req, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				requests.Add(1)
				if req.Method != http.MethodGet || req.URL.String() != "/healthz" || req.Header.Get(work.HeaderID) != "" {
					t.Errorf("asked %s %s with %v", req.Method, req.URL, req.Header)
				}
				fmt.Fprint(conn, c.answer)
			})
			p := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Check}, Rate: 50}
			samples := record(t, testStream(addr, p), 5)
			for _, s := range samples {
				c.want.check(t, s)
				if s.Nth != 1 || s.Want != 0 {
					t.Errorf("sample: %s", text(s))
				}
			}
			if n := int(requests.Load()); n != len(samples) {
				t.Errorf("%d samples, and the server saw %d requests", len(samples), n)
			}
		})
	}
}
