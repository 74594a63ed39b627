// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"runtime"
	"runtime/debug"
)

// Version is the suite's own version.
const Version = "v0.1.0-dev"

// ThisSuite says what the running binary was built from, as the Go toolchain
// recorded it. A build without version control stamps has no revision.
func ThisSuite() Suite {
	s := Suite{Version: Version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s
	}
	for _, kv := range info.Settings {
		switch kv.Key {
		case "vcs.revision":
			s.Revision = kv.Value
		case "vcs.modified":
			s.Modified = kv.Value == "true"
		}
	}
	return s
}
