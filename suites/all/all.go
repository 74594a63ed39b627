// SPDX-License-Identifier: Apache-2.0

// Package all registers every behaviour. It links no Ginkgo, so that recorded
// runs can be judged without it.
package all

import (
	// Each area registers its behaviours when it is linked in.
	_ "github.com/lastcall-dev/lastcall/suites/endpoints"
	_ "github.com/lastcall-dev/lastcall/suites/gateway"
	_ "github.com/lastcall-dev/lastcall/suites/grpc"
	_ "github.com/lastcall-dev/lastcall/suites/http1"
	_ "github.com/lastcall-dev/lastcall/suites/http2"
	_ "github.com/lastcall-dev/lastcall/suites/pod"
	_ "github.com/lastcall-dev/lastcall/suites/pool"
	_ "github.com/lastcall-dev/lastcall/suites/rollout"
	_ "github.com/lastcall-dev/lastcall/suites/transport"
)
