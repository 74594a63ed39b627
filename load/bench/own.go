// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"fortio.org/fortio/fhttp"
	"fortio.org/fortio/periodic"
	"fortio.org/log"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/probe"
	"github.com/lastcall-dev/lastcall/load/work"
)

// task is what a client is to do.
type task struct {
	Addr  string        `json:"addr"`
	Rate  float64       `json:"rate"`
	Lasts time.Duration `json:"lasts"`
	// Conns is how many there are at once, where the client has such a number.
	Conns int `json:"conns"`
	// New: each request has a connection of its own.
	New bool `json:"new"`
	// Hold: the answers do not come. The connections are to be opened within
	// Lasts.
	Hold bool `json:"hold"`
}

func (t task) url() string {
	return "http://" + t.Addr + work.URLPath + "?" + work.Job{Bytes: work.SmallBytes}.Query()
}

// result is what a client says of itself.
type result struct {
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
	// Late are how late its requests began by its own clock, p50, p99 and worst;
	// none where it does not tell.
	Late []time.Duration `json:"late,omitempty"`
}

// ownMain is one of the clients that are packages.
func ownMain(ctx context.Context, name, arg string) error {
	var t task
	if err := json.Unmarshal([]byte(arg), &t); err != nil {
		return fmt.Errorf("the task: %w", err)
	}
	var r result
	var err error
	switch name {
	case "probe":
		r, err = probeClient(ctx, t)
	default:
		r, err = fortioClient(t)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// probeClient runs the probe as an agent does: each sample goes to the spool, by
// a write(2) of its own.
func probeClient(ctx context.Context, t task) (result, error) {
	dir, err := os.MkdirTemp("", "lastcall-bench")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	spool, err := control.NewSpool(dir)
	if err != nil {
		return result{}, err
	}
	defer spool.Close()
	var (
		mu   sync.Mutex
		r    result
		late []time.Duration
		lost error
	)
	s := load.Stream{
		Name: flow.Named("bench"), Addr: t.Addr, Seed: uint64(time.Now().UnixNano()), Tolerance: time.Hour, Timeout: 10 * time.Second,
		Profile: load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: t.Rate},
	}
	if t.New {
		s.Profile.Conns = flow.New
	}
	if t.Hold {
		s.Timeout = time.Hour
	}
	h, err := probe.Generator{}.Start(ctx, s, func(x timeline.Record) {
		err := spool.Append(x)
		mu.Lock()
		defer mu.Unlock()
		if lost == nil {
			lost = err
		}
		if x.Sample == nil {
			return
		}
		r.Requests++
		if x.Sample.Failed() {
			r.Failed++
		}
		late = append(late, x.Sample.Start-x.Sample.Due)
	})
	if err != nil {
		return result{}, err
	}
	select {
	case <-time.After(t.Lasts):
	case <-ctx.Done():
	}
	h.Stop()
	<-h.Done()
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(late)
	r.Late = []time.Duration{percentile(late, 50), percentile(late, 99), percentile(late, 100)}
	return r, lost
}

// fortioClient runs fortio's fast client as its command does, with requests
// spread over the connections.
func fortioClient(t task) (result, error) {
	log.SetLogLevelQuiet(log.Critical)
	o := fhttp.HTTPRunnerOptions{
		RunnerOptions: periodic.RunnerOptions{
			QPS: t.Rate, NumThreads: t.Conns, Duration: t.Lasts, Uniform: true, Out: io.Discard, Stop: periodic.NewAborter(),
		},
		AllowInitialErrors: true,
	}
	o.URL = t.url()
	o.HTTPReqTimeOut, o.DisableKeepAlive, o.NoResolveEachConn = 10*time.Second, t.New, true
	if t.Hold {
		o.HTTPReqTimeOut = time.Hour
	}
	res, err := fhttp.RunHTTPTest(&o)
	if err != nil {
		return result{}, err
	}
	var r result
	for code, n := range res.RetCodes {
		r.Requests += int(n)
		if code != http.StatusOK {
			r.Failed += int(n)
		}
	}
	return r, nil
}
