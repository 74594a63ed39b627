// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// answerBudget is how long an agent may take to answer at first, and catchUpBudget how long the
// rest of its history may take.
const (
	answerBudget  = time.Minute
	catchUpBudget = time.Minute
)

// Attached is an agent whose history is followed.
type Attached struct {
	*Client
	cancel context.CancelFunc
	done   chan struct{}
}

// Attach dials an agent and hands its records to emit until Detach, with what their times lack of
// this process's clock. lost is called when the history ends before that.
func Attach(ctx context.Context, addr string, dial DialFunc, cred Credentials, emit func(timeline.Record, time.Duration), lost func(error)) (*Attached, error) {
	dialling, over := context.WithTimeout(ctx, answerBudget)
	defer over()
	client, err := Dial(dialling, addr, dial, cred)
	if err != nil {
		return nil, err
	}
	// It goes on past the end of ctx: what was recorded when somebody pressed Ctrl-C still arrives.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &Attached{Client: client, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		err := client.Follow(ctx, func(r timeline.Record) error {
			offset, unsure := client.Offset()
			if r.Event != nil {
				r.Event.Err += unsure
			}
			emit(r, offset)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended its history")
		}
		lost(err)
	}()
	return a, nil
}

// Rest waits until everything that the agent recorded has arrived. Of one that was lost nothing
// more comes.
func (a *Attached) Rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, catchUpBudget, fmt.Errorf("not within %s", catchUpBudget))
	defer cancel()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	go func() {
		select {
		case <-a.done:
			lost(errors.New("it was lost"))
		case <-ctx.Done():
		}
	}()
	return a.CatchUp(ctx)
}

// Detach follows it no more.
func (a *Attached) Detach() {
	a.cancel()
	<-a.done
	a.Close()
}
