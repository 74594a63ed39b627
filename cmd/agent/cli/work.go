// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// workCommand is the app of a Job: it ends by itself.
func workCommand(signals <-chan os.Signal) *cobra.Command {
	c := &cobra.Command{Use: "work", Short: "Work for a while and end: the app of a Job", Args: noArgs}
	var takes time.Duration
	var code int
	c.Flags().DurationVar(&takes, "for", time.Second, "how long")
	c.Flags().IntVar(&code, "code", 0, "0: end well; 1: with an error")
	c.RunE = func(*cobra.Command, []string) error {
		if code != 0 && code != 1 {
			return usage("code %d is not 0 or 1", code)
		}
		done := time.NewTimer(takes)
		defer done.Stop()
		select {
		case <-done.C:
		case s := <-signals:
			return fmt.Errorf("ended by %v before its work was done", s)
		}
		if code != 0 {
			return errors.New("the work has failed, as it was told to")
		}
		return nil
	}
	return c
}
