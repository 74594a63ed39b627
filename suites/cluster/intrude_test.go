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
	g := &ground{probe: probe}
	told, err := g.dialFromElsewhere(t.Context(), loopbackPod(), port)
	if err != nil || len(told) != 2 {
		t.Fatalf("%v, %v", told, err)
	}
	for i, host := range []string{"127.0.0.1", "127.0.0.2"} {
		one := told[i]
		if one.To != net.JoinHostPort(host, strconv.Itoa(port)) {
			t.Errorf("%+v", one)
		}
		if (one.Err == nil) != (host == "127.0.0.1") || one.Err != nil && !strings.Contains(one.Err.Error(), "refused") {
			t.Errorf("%s: %v", host, one.Err)
		}
	}
}

// Where the other pod can't be asked, nothing is known of the port: that is no refusal.
func TestDialFromElsewhereByNobody(t *testing.T) {
	s := serve(t, nil)
	probe, _ := follows(t, s, func(timeline.Record, time.Duration) {})
	s.end()
	g := &ground{probe: probe}
	if told, err := g.dialFromElsewhere(t.Context(), loopbackPod(), 1); err == nil || len(told) > 0 || !strings.Contains(err.Error(), "dialling 127.0.0.1:1 from another pod") {
		t.Errorf("%v, %v", told, err)
	}
}
