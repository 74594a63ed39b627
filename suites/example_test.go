// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites"
)

// A vendor's own test of the proxy that its file describes. What system.Load gives is a
// struct, which a program may as well fill in by itself: both forms give the same report.
func ExampleRun() {
	testMyProxy := func(t *testing.T) {
		proxy, err := system.Load("my-proxy.yaml")
		if err != nil {
			t.Fatal(err)
		}
		suites.Run(t, suites.Config{Stage: suites.StageHost, System: proxy, Out: "lastcall-report/my-proxy"})
	}
	_ = testMyProxy // `go test` calls it, by the name of TestMyProxy
}
