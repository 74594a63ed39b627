// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
)

// workCommand is the app of a Job: it ends by itself.
func workCommand(signals <-chan os.Signal) *cobra.Command {
	c := &cobra.Command{Use: "work", Short: "Work for a while and end: the app of a Job", Args: noArgs}
	var takes time.Duration
	var code int
	var quit string
	c.Flags().DurationVar(&takes, "for", time.Second, "how long")
	c.Flags().IntVar(&code, "code", 0, "0: end well; 1: with an error")
	c.Flags().StringVar(&quit, "quit", "", "URL that is asked by POST in the end, however that is: as who wraps a Job's app tells its sidecar to go")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if code != 0 && code != 1 {
			return usage("code %d is not 0 or 1", code)
		}
		if quit != "" {
			if u, err := url.Parse(quit); err != nil || u.Scheme != "http" || u.Host == "" {
				return usage("quit %q: want http://HOST:PORT/PATH", quit)
			}
			defer func() {
				_, unheard := shutdown.Post(c.Context(), quit)
				err = errors.Join(err, unheard)
			}()
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
