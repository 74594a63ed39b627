// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of the reference mesh. Its signals and its exit are main's.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"
)

// usageError is bad input: exit code 2.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run is the whole program, and returns its exit code. signals brings SIGTERM and SIGINT.
func Run(args []string, signals <-chan os.Signal, stderr io.Writer) int {
	root := &cobra.Command{Use: "mesh", Short: "The reference mesh of Lastcall", SilenceUsage: true, SilenceErrors: true}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(sidecarCommand(signals, stderr), redirectCommand(stderr), controllerCommand(signals, stderr))
	root.SetArgs(args)
	root.SetOut(stderr)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "mesh:", err)
	var bad usageError
	if errors.As(err, &bad) {
		return 2
	}
	return 1
}

// component is what drains before it ends.
type component interface {
	Start(ctx context.Context) error
	Drain(why string)
	Wait() error
}

// run starts a component, drains it at each signal, and waits for its end. never is what Start
// returns where the drain came first: that is told, and no failure.
func run(c component, never error, signals <-chan os.Signal, logger *log.Logger) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			select {
			case s := <-signals:
				c.Drain(s.String())
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := c.Start(ctx); errors.Is(err, never) {
		logger.Print(err)
		return nil
	} else if err != nil {
		return err
	}
	logger.Print("serves")
	return c.Wait()
}
