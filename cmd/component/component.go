// SPDX-License-Identifier: Apache-2.0

// Package component runs a reference component as a process: what ends it are signals, which main
// has taken.
package component

import (
	"context"
	"errors"
	"log"
	"os"
)

// Component is a reference component, which drains before it ends.
type Component interface {
	Start(ctx context.Context) error
	Drain(why string)
	Wait() error
}

// Run starts a component, drains it at each signal, and waits for its end. neverStarted is what
// Start returns where the drain came first: that is told, and no failure. started is called when
// it has.
func Run(c Component, neverStarted error, signals <-chan os.Signal, logger *log.Logger, started func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			select {
			case s := <-signals:
				logger.Printf("%v", s)
				c.Drain(signalName(s))
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := c.Start(ctx); errors.Is(err, neverStarted) {
		logger.Print(err)
		return nil
	} else if err != nil {
		return err
	}
	started()
	return c.Wait()
}

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "SIGINT"
	}
	return "SIGTERM"
}
