// SPDX-License-Identifier: Apache-2.0

package match_test

import (
	"fmt"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/match"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// A spec of a vendor's own has g from its test: gomega.NewWithT(t), or Ginkgo's Expect alone.
// Here it prints what fails. The run is a small one: of 30,000 requests, which the behaviour
// asks for, its recording has 4,000.
func ExampleHaveNoFailedRequests() {
	g := gomega.NewGomega(func(message string, _ ...int) { fmt.Println(message) })

	recording, err := behaviour.Open("testdata/keeps-pool", "rollout.zero-failed")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	fmt.Println("over 1,000:", g.Expect(recording).To(match.HaveNoFailedRequests().OverAtLeast(1000)))
	fmt.Println("over 5,000:", g.Expect(recording).To(match.HaveNoFailedRequests().OverAtLeast(5000)))

	// Output:
	// over 1,000: true
	// HaveNoFailedRequests: Inconclusive, which is neither To nor NotTo
	//
	// --- INCONCLUSIVE rollout.zero-failed (MUST)
	//   Rule:      A rolling update under load fails no request, and runs none twice that may run only
	//              once
	//   Reason:    not enough evidence: attempts through the Service in [first D, last exit + P]: 3994,
	//              and at least 5000 are needed
	//   Machine:   251 of this recording's 4,809 requests were sent late, by the suite's own client; 3% of
	//              the CPU was taken by others on its host in the worst second
	//   Check:     requests through the Service in [first D, last exit + P]
	//   History:   testdata/keeps-pool/history/rollout-74960d
	//   Explain:   lastcall explain rollout.zero-failed
	//
	// What to do: record it again, in a run with its control, on idle cores (--wait-idle 10m), and under the traffic that the matcher counts. Or ask for less (OverAtLeast, WithFloor), where less is enough for what the spec says.
	// over 5,000: false
}

func ExampleHaveEvictedFromPools() {
	g := gomega.NewGomega(func(message string, _ ...int) { fmt.Println(message) })

	recording, err := behaviour.Open("testdata/keeps-pool", "pool.evicts")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(recording).To(match.HaveEvictedFromPools())

	// Output:
	// HaveEvictedFromPools does not hold:
	//
	// --- FAIL pool.evicts (MUST)
	//   Rule:      A pool holds no socket to a backend that is gone
	//              our own rule, pools: "A second after a backend has exited, no process of the proxy
	//              holds a socket to it. Until then its FIN or RST has come on each of them."
	//              RFC 9112, section 9.5: "Implementations SHOULD constantly monitor open connections for
	//              a received closure signal and respond to it as appropriate, since prompt closure of
	//              both sides of a connection enables allocated system resources to be reclaimed."
	//              https://www.rfc-editor.org/rfc/rfc9112#section-9.5
	//   Why:       Each roll-out leaves as many dead sockets as the pool was deep. They take file
	//              descriptors until the proxy can accept nobody, and each is a request that may be
	//              written into the void.
	//
	//   Check:     sockets to an instance 1s after its exit
	//   Accepted:  no process of the gateway has any, in whatever state
	//   Seen:      371 sockets were held 1s after its exit and longer; at the last look gateway-1 had 439
	//              sockets to all of its backends, and its own gauge said 68
	//   When:      judged from +18.451s to +47.702s (from the recording's start); first at +30.745s,
	//              D+12.294s of echo-1
	//   Where:     echo-1 on host, echo-2 on host
	//   Culprits:  371 observations against the rule; the first 8:
	//              +30.745s  D+12.294s of echo-1    exit + 1.247s: gateway-1 has a socket from 127.0.0.1:50214 to echo-1, in state close-wait
	//              +30.745s  D+12.294s of echo-1    exit + 1.247s: gateway-1 has a socket from 127.0.0.1:50216 to echo-1, in state close-wait
	//              +30.745s  D+12.294s of echo-1    exit + 1.247s: gateway-1 has a socket from 127.0.0.1:50218 to echo-1, in state close-wait
	//              +30.745s  D+12.294s of echo-1    exit + 1.247s: gateway-1 has a socket from 127.0.0.1:50226 to echo-1, in state close-wait
	//              +30.745s  D+12.294s of echo-1    exit + 1.247s: gateway-1 has a socket from 127.0.0.1:50240 to echo-1, in state close-wait
	//              +30.745s  D+12.294s of echo-1    exit + 1.247s: gateway-1 has a socket from 127.0.0.1:50252 to echo-1, in state close-wait
	//              +30.745s  D+12.294s of echo-1    exit + 1.247s: gateway-1 has a socket from 127.0.0.1:50264 to echo-1, in state close-wait
	//              +47.745s  D+12.107s of echo-2    exit + 1.043s: gateway-1 has a socket from 127.0.0.1:58924 to echo-2, in state close-wait
	//   Evidence:  32 sockets to the instance at its D, the fewest at echo-1 (at least 1 needed); 82 looks
	//              at the sockets later than that after its exit, the fewest at echo-2 (at least 1 needed)
	//
	//   Fix:       Read from idle connections too, and close each as soon as its peer has. Empty the pool
	//              of a backend that leaves the endpoints.
	//   History:   testdata/keeps-pool/history/rollout-7834ce
	//   Explain:   lastcall explain pool.evicts
}
