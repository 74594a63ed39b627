// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// How fast a machine is, is measured by requests over one connection of the loopback: system calls, the scheduler and
// the kernel's TCP are most of what recordings take.
const (
	speedRounds   = 6
	speedRequests = 1000
	// priced is what one of these requests takes of the machine that the prices are of, client and server together: by what it took
	// of one on which those of load/bench took 1.75 times as long (2026-11-28).
	priced = 54 * time.Microsecond
	// asPriced is from which speed on a machine counts as that one: measured twice, it is not the same.
	asPriced = 0.85
)

// Speed is how much a core of this machine does in the time in which one of the machine that the prices are of does 1, by the CPU time of
// a piece of work: what else runs here is not in it, but for what that takes of the caches. One that is about as fast, or
// faster, has 1. The error is why it was not measured.
func Speed(ctx context.Context) (float64, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 1, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	})}
	go func() { _ = server.Serve(l) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var least time.Duration
	for range speedRounds {
		var took time.Duration
		if took, err = askedFor(ctx, &http.Client{Transport: transport}, "http://"+l.Addr().String()); err != nil {
			break
		}
		if least == 0 || took < least {
			least = took
		}
	}
	if err = errors.Join(err, server.Close()); err != nil || least <= 0 {
		return 1, err
	}
	if speed := float64(priced) / float64(least); speed < asPriced {
		return speed, nil
	}
	return 1, nil
}

// askedFor is the CPU time of one of some requests.
func askedFor(ctx context.Context, client *http.Client, url string) (time.Duration, error) {
	before, err := timeline.CPUTime()
	if err != nil {
		return 0, err
	}
	for range speedRequests {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 0, err
		}
		answer, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return 0, err
		}
		_ = answer.Body.Close()
	}
	after, err := timeline.CPUTime()
	return (after - before) / speedRequests, err
}
