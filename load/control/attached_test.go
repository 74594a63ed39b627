// SPDX-License-Identifier: Apache-2.0

package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/control"
)

// What an agent records arrives until it is detached; one that ends its history before that is lost,
// and so is the rest of it.
func TestAttach(t *testing.T) {
	a := start(t)
	got, lost := make(chan int, 10), make(chan error, 1)
	c, err := control.Attach(t.Context(), a.addr, nil, a.client, func(r timeline.Record, _ time.Duration) { got <- int(r.Event.At) }, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Detach()
	a.Emit(event(1))
	a.Emit(event(2))
	if err := c.Rest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(got); n != 2 || <-got != 1 || <-got != 2 {
		t.Errorf("%d records", n)
	}
	a.end()
	if err := <-lost; err == nil || !strings.Contains(err.Error(), "it ended its history") {
		t.Errorf("%v", err)
	}
	if err := c.Rest(t.Context()); err == nil {
		t.Error("the rest of an agent that is gone is there")
	}

	b := another(t)
	d, err := control.Attach(t.Context(), b.addr, nil, b.client, func(timeline.Record, time.Duration) {}, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	d.Detach()
	b.end()
	select {
	case err := <-lost:
		t.Errorf("one that was detached is lost: %v", err)
	default:
	}
}

// What an agent has recorded is not waited for where nobody follows it any more.
func TestRestOfALostAgent(t *testing.T) {
	a := start(t)
	a.Emit(event(1))
	client, err := control.Dial(t.Context(), a.addr, nil, a.client)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := control.Unfollowed(client).Rest(t.Context()); err == nil || !strings.Contains(err.Error(), "it was lost") {
		t.Error(err)
	}
}
