// SPDX-License-Identifier: Apache-2.0

// Package fortio makes pressure: closed-loop load, each connection waiting
// for its answer, as `hey -c 100 -q 10` does. Its failures are evidence, never
// the oracle: a closed loop stops asking while a server stalls, and fortio's
// fast client silently replays a request once when a kept connection breaks.
package fortio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"fortio.org/fortio/fhttp"
	"fortio.org/fortio/periodic"
	"fortio.org/fortio/stats"
	"fortio.org/log"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/work"
)

// MaxConns bounds a run's connections.
const MaxConns = 10000

// timeout bounds one request, and so the end of a run behind its Duration or
// the end of its context.
const timeout = 3 * time.Second

// Spec is one run.
type Spec struct {
	// Name is for the record.
	Name string
	// Addr is an IP and a port.
	Addr string
	// Conns is how many connections there are, each with one request at a time.
	Conns int
	// QPS is requests per second of all connections together: hey's -q is per
	// connection.
	QPS float64
	// Duration is how long it lasts at most.
	Duration time.Duration
	// Fresh opens a connection for each request, instead of keeping one.
	Fresh bool
}

func (s Spec) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Name == "" {
		bad("no name: its record is found by it")
	}
	if addr, err := netip.ParseAddrPort(s.Addr); err != nil || addr.Port() == 0 {
		bad("address %q: want an IP and a port, as in 10.0.0.1:80 or [fd00::1]:80", s.Addr)
	}
	if s.Conns < 1 || s.Conns > MaxConns {
		bad("%d connections: want 1 to %d", s.Conns, MaxConns)
	}
	if math.IsNaN(s.QPS) || math.IsInf(s.QPS, 0) || s.QPS <= 0 {
		bad("%v requests per second: want a number above 0", s.QPS)
	}
	if s.Duration <= 0 {
		bad("duration %v: want one above 0", s.Duration)
	}
	// With less, fortio takes connections away by itself.
	if calls := s.QPS * s.Duration.Seconds(); len(errs) == 0 && calls < 2*float64(s.Conns) {
		bad("%v requests per second for %v are %.0f: want two for each of %d connections; ask for fewer connections or a longer run",
			s.QPS, s.Duration, calls, s.Conns)
	}
	return errors.Join(errs...)
}

// quiet keeps fortio from writing a line to stderr for each failed request.
// The level is global to its logger, which nothing else here uses.
var quiet = sync.OnceFunc(func() { log.SetLogLevelQuiet(log.Critical) })

// percentiles are those that a summary has.
var percentiles = []float64{50, 90, 99}

// Run makes pressure until its Duration is over or ctx ends, and returns the
// summary, also of a run that was cut short: an event of kind Pressure with the
// attributes that timeline.Pressure names. Each connection's first request is a
// warm-up and not counted. Each request says by work.HeaderPressure what it is.
func Run(ctx context.Context, s Spec) (timeline.Event, error) { return run(ctx, s, timeout) }

func run(ctx context.Context, s Spec, perRequest time.Duration) (timeline.Event, error) {
	if err := s.check(); err != nil {
		return timeline.Event{}, fmt.Errorf("pressure %q: %w", s.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return timeline.Event{}, fmt.Errorf("pressure %q: %w", s.Name, err)
	}
	quiet()
	// An aborter of our own, or fortio takes over the process's SIGINT; and
	// one for each run, or a second run on it sends nothing.
	aborter := periodic.NewAborter()
	defer context.AfterFunc(ctx, func() { aborter.Abort(false) })()
	o := fhttp.HTTPRunnerOptions{
		RunnerOptions: periodic.RunnerOptions{
			QPS:         s.QPS,
			NumThreads:  s.Conns,
			Duration:    s.Duration,
			Uniform:     true, // spread over the connections, no herd
			NoCatchUp:   true, // what a stall swallowed is not asked later
			Resolution:  0.0001,
			Percentiles: percentiles,
			Out:         io.Discard,
			Stop:        aborter,
		},
		// The steady gate says whether a server is well, not the warm-up.
		AllowInitialErrors: true,
	}
	o.URL = "http://" + s.Addr + work.URLPath + "?" + work.Job{Bytes: work.SmallBytes}.Query()
	o.HTTPReqTimeOut = perRequest
	o.NoResolveEachConn = true
	o.DisableKeepAlive = s.Fresh
	if err := o.AddAndValidateExtraHeader(work.HeaderPressure + ": " + s.Name); err != nil {
		return timeline.Event{}, fmt.Errorf("pressure %q: its marker: %w", s.Name, err)
	}
	r, err := fhttp.RunHTTPTest(&o)
	if err != nil {
		return timeline.Event{}, fmt.Errorf("pressure %q: %w", s.Name, err)
	}
	return timeline.Event{
		At: timeline.Monotonic(), Source: "agent", Kind: timeline.Pressure, Name: s.Name,
		Attrs: summary(s, r, context.Cause(ctx)),
	}, nil
}

// summary is what a run came to.
func summary(s Spec, r *fhttp.HTTPRunnerResults, stopped error) map[string]string {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	millis := func(seconds float64) string { return strconv.FormatFloat(1000*seconds, 'f', 3, 64) }
	var requests, silent int64
	attrs := map[string]string{}
	for code, n := range r.RetCodes {
		requests += n
		switch {
		case code == http.StatusOK:
		case code < http.StatusContinue: // fortio's own, where no answer came: -1
			silent += n
		default:
			attrs["status."+strconv.Itoa(code)] = count(n)
		}
	}
	ok := r.RetCodes[http.StatusOK]
	attrs["requests"], attrs["ok"], attrs["errors"], attrs["socketErrors"] = count(requests), count(ok), count(requests-ok), count(silent)
	attrs["warmups"], attrs["conns"], attrs["sockets"] = count(int64(r.NumThreads)), strconv.Itoa(s.Conns), count(r.SocketCount)
	attrs["qps"] = strconv.FormatFloat(s.QPS, 'f', -1, 64)
	attrs["seconds"] = strconv.FormatFloat(r.ActualDuration.Seconds(), 'f', 3, 64)
	for _, p := range r.DurationHistogram.Percentiles {
		attrs[fmt.Sprintf("p%vms", p.Percentile)] = millis(p.Value)
	}
	attrs["maxms"] = millis(r.DurationHistogram.Max)
	attrs["histogram"] = histogram(r.DurationHistogram.Data)
	if stopped != nil && !errors.Is(stopped, context.Canceled) {
		attrs["stopped"] = stopped.Error()
	}
	return attrs
}

// histogram is one word for each bucket: its upper end in milliseconds, and how many
// requests took longer than the last bucket's and no longer than that.
func histogram(buckets []stats.Bucket) string {
	words := make([]string, 0, len(buckets))
	for _, b := range buckets {
		words = append(words, strconv.FormatFloat(1000*b.End, 'f', 3, 64)+":"+strconv.FormatInt(b.Count, 10))
	}
	return strings.Join(words, " ")
}
