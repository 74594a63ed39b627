// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/waypoint"
)

func waypointCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "waypoint", Short: "An end of tunnels before whatever apps they name, without a mesh around it", Args: cobra.NoArgs}
	var cfg waypoint.Config
	var cert, key, ca string
	f := c.Flags()
	f.StringVar(&cfg.Listen, "listen", "", "where it takes tunnels")
	f.StringVar(&cfg.Health, "health", "", "where it serves /readyz and /livez")
	f.StringVar(&cert, "cert", "", "file of its certificate, with one SPIFFE ID, and of who signed it (PEM)")
	f.StringVar(&key, "key", "", "file of the certificate's key (PEM)")
	f.StringVar(&ca, "ca", "", "file of who signs for its clients (PEM)")
	f.DurationVar(&cfg.Drain.Min, "min-drain", 0, "how long it accepts after SIGTERM")
	f.DurationVar(&cfg.Drain.Unready, "unready", 0, "how long it accepts after that, while it says that it is not ready")
	f.DurationVar(&cfg.Drain.Deadline, "deadline", 0, "when it cuts what still runs, from SIGTERM on")
	c.RunE = func(*cobra.Command, []string) error {
		cfg.Log = log.New(stderr, "waypoint: ", log.LstdFlags|log.Lmicroseconds)
		pems := map[string][]byte{}
		var errs []error
		for _, path := range []string{cert, key, ca} {
			var err error
			pems[path], err = os.ReadFile(path)
			errs = append(errs, err)
		}
		err := errors.Join(errs...)
		if err == nil {
			cfg.Keeper, err = identity.Held(pems[cert], pems[key], pems[ca])
		}
		if err != nil {
			return usageError{err}
		}
		w, err := waypoint.New(cfg)
		if err != nil {
			return usageError{err}
		}
		return component.Run(w, waypoint.ErrNeverStarted, signals, cfg.Log, func() { cfg.Log.Print("serves") })
	}
	return c
}
