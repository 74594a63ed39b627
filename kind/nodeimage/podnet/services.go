// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"time"
)

// kube-proxy's own account of what it has done, on its default address. Its status has
// an entry for an IP family once that family's rules have been written
// (k8s.io/kubernetes v1.34.4, pkg/proxy/healthcheck/proxy_health.go).
const kubeProxyURL = "http://127.0.0.1:10256/livez"

const (
	// servicesWithin bounds the wait for kube-proxy: a cluster may have none.
	servicesWithin = 30 * time.Second
	servicesPoll   = 200 * time.Millisecond
)

// servicesProgrammed tells why Services do not work yet for the families of cidrs; nil
// if they do.
func servicesProgrammed(ctx context.Context, client *http.Client, url string, cidrs []netip.Prefix) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var health struct {
		Status map[string]json.RawMessage `json:"status"`
	}
	if err := json.NewDecoder(response.Body).Decode(&health); err != nil {
		return fmt.Errorf("what kube-proxy says of itself: %w", err)
	}
	for _, cidr := range cidrs {
		family := "IPv4"
		if cidr.Addr().Is6() {
			family = "IPv6"
		}
		if _, ok := health.Status[family]; !ok {
			return fmt.Errorf("kube-proxy has not written its %s rules yet", family)
		}
	}
	return nil
}
