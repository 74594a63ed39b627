// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/probe"
)

// calls is what an app sends out itself. What becomes of it stands in the app's ledger, which
// outlives the pod: whoever dials from a pod that goes can tell nobody in time by the network.
// It implements echo.Calls.
type calls struct {
	what   string // the flag's value
	atOnce bool   // they begin with the app, and not at a signal

	streams []load.Stream
	flows   *load.Flows
	log     *log.Logger

	mu   sync.Mutex
	over bool
}

var _ echo.Calls = (*calls)(nil)

// readCalls are the streams of a pod, by the flag's value. They are named by the pod: it is who
// asks that matters.
func readCalls(text, pod string) ([]load.Stream, error) {
	var streams []load.Stream
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&streams); err != nil {
		return nil, fmt.Errorf("--calls: %w", err)
	}
	if len(streams) == 0 || d.More() {
		return nil, errors.New("--calls: want one list of streams, and one stream at least")
	}
	for i := range streams {
		s := &streams[i]
		if !s.Profile.Path.Dialled() {
			return nil, fmt.Errorf("--calls: the path of %s is none that a pod dials itself", s.Name)
		}
		s.Name = flow.To(s.Profile.Flow, pod)
	}
	return streams, nil
}

// ready reads the flag, and has signals begin the calls and end them until stop.
func (c *calls) ready(pod string, ledger echo.Ledger, to *log.Logger) (stop func(), err error) {
	if c.streams, err = readCalls(c.what, pod); err != nil {
		return nil, err
	}
	c.log = to
	gen := probe.Generator{Room: probe.NewRoom(probe.MaxInFlight)}
	c.flows = load.NewFlows(context.Background(), gen, func(r timeline.Record) {
		if err := ledger.Append(r); err != nil {
			to.Printf("what became of a call is missing in the ledger: %v", err)
		}
	})
	told := make(chan os.Signal, 2)
	signal.Notify(told, syscall.SIGUSR1, syscall.SIGUSR2)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-told:
				c.hear(s)
			case <-done:
				return
			}
		}
	}()
	if c.atOnce {
		err = c.begin()
	}
	return func() { signal.Stop(told); close(done) }, err
}

// hear begins the calls at the first signal, and ends them at the second.
func (c *calls) hear(s os.Signal) {
	var err error
	if s == syscall.SIGUSR1 {
		err = c.begin()
	} else {
		err = c.End(context.Background())
	}
	if err != nil {
		c.log.Printf("the calls, at %v: %v", s, err)
	}
}

// begin begins the calls, unless they have been ended.
func (c *calls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	streams := slices.Clone(c.streams)
	c.streams = nil // a second signal begins nothing
	return c.flows.Start(streams...)
}

// tellWithin bounds how long it takes to write what became of calls that are given up.
const tellWithin = time.Second

// End implements echo.Calls. What is not answered when ctx ends is given up, and stands in the ledger.
func (c *calls) End(ctx context.Context) error {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	err := c.flows.Stop(ctx)
	if err == nil {
		return nil
	}
	told, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), tellWithin, errors.New("calls that are given up don't end"))
	defer cancel()
	return errors.Join(err, c.flows.GiveUp(told))
}
