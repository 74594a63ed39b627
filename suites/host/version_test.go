// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	got, err := version(t.Context(), []string{"printf", `\n proxy 3.0.11 \nsupported\n`})
	if err != nil || got != "proxy 3.0.11" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := version(t.Context(), []string{"false"}); err == nil || !strings.Contains(err.Error(), "host.version: false: exit status 1") {
		t.Errorf("%v", err)
	}
	if _, err := version(t.Context(), []string{"no-such-program"}); err == nil {
		t.Error("a program that is not there has a version")
	}
}
