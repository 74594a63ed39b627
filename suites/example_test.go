// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"path/filepath"
	"testing"
	"time"

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
		out := filepath.Join("lastcall-report", time.Now().Format("20060102-150405")) // of this run alone
		suites.Run(t, suites.Config{Stage: suites.StageHost, System: proxy, Out: out})
	}
	_ = testMyProxy // `go test` calls it, by the name of TestMyProxy
}
