// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// loopbackPod is a pod at two addresses of the loopback: Linux has all of them.
func loopbackPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "gateway-1", UID: "uid-g"}, Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}, {IP: "127.0.0.2"}}},
	}
}

// A port is tried from another pod at each of the pod's addresses, and each is told of: whether it
// accepts, or why not.
func TestDialFromElsewhere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	probe, _ := follows(t, serve(t, nil), func(timeline.Record, time.Duration) {})
	tl := recordedBy(t, func(sink *behaviour.Sink) {
		g := &ground{probe: probe, sink: sink}
		if err := g.dialFromElsewhere(t.Context(), loopbackPod(), port, "admin"); err != nil {
			t.Error(err)
		}
	})
	told := tl.EventsOf(timeline.Control, "uid-g")
	if len(told) != 2 {
		t.Fatalf("%d events", len(told))
	}
	for i, host := range []string{"127.0.0.1", "127.0.0.2"} {
		e := told[i]
		if e.Attrs["from"] != timeline.ControlElsewhere || e.Attrs["to"] != net.JoinHostPort(host, strconv.Itoa(port)) || e.Attrs["port"] != "admin" || e.Name != "gateway-1" || e.Node != "n1" {
			t.Errorf("%+v", e)
		}
		if refused := e.Attrs["error"]; (refused == "") != (host == "127.0.0.1") || refused != "" && !strings.Contains(refused, "refused") {
			t.Errorf("%s: %q", host, refused)
		}
	}
}

// Where the other pod can't be asked, nothing is known of the port: that is no refusal.
func TestDialFromElsewhereByNobody(t *testing.T) {
	s := serve(t, nil)
	probe, _ := follows(t, s, func(timeline.Record, time.Duration) {})
	s.end()
	tl := recordedBy(t, func(sink *behaviour.Sink) {
		g := &ground{probe: probe, sink: sink}
		if err := g.dialFromElsewhere(t.Context(), loopbackPod(), 1, "admin"); err == nil || !strings.Contains(err.Error(), "dialling 127.0.0.1:1 from another pod") {
			t.Error(err)
		}
	})
	if told := tl.EventsOf(timeline.Control, ""); len(told) > 0 {
		t.Errorf("it is told all the same: %+v", told)
	}
}
