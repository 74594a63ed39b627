// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"

	"github.com/lastcall-dev/lastcall/load/control"
)

// forward dials a pod's port through the API server: each connection has a
// forwarder of its own, which ends with it. The channel inside is mTLS, so the
// API server sees no more than its bytes.
func forward(cfg *rest.Config, namespace, pod string, port int) control.DialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		cs, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return nil, err
		}
		url := cs.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
		transport, upgrader, err := spdy.RoundTripperFor(cfg)
		if err != nil {
			return nil, fmt.Errorf("port-forward to %s/%s: %w", namespace, pod, err)
		}
		dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
		stop, ready := make(chan struct{}), make(chan struct{})
		fw, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(port)}, stop, ready, io.Discard, io.Discard)
		if err != nil {
			return nil, fmt.Errorf("port-forward to %s/%s: %w", namespace, pod, err)
		}
		ended := make(chan error, 1)
		go func() { ended <- fw.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-ended:
			return nil, fmt.Errorf("port-forward to %s/%s: %w", namespace, pod, err)
		case <-ctx.Done():
			close(stop)
			return nil, context.Cause(ctx)
		}
		ports, err := fw.GetPorts()
		if err != nil {
			close(stop)
			return nil, fmt.Errorf("port-forward to %s/%s: %w", namespace, pod, err)
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
		if err != nil {
			close(stop)
			return nil, err
		}
		return &forwarded{Conn: conn, stop: stop}, nil
	}
}

// forwarded ends its forwarder when it is closed.
type forwarded struct {
	net.Conn
	stop chan struct{}
}

// Close closes the connection and its forwarder.
func (f *forwarded) Close() error {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	return f.Conn.Close()
}
