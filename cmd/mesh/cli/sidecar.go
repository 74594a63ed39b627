// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures/appprocesses"
	"github.com/lastcall-dev/lastcall/fixtures/appsockets"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/mesh"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
)

func sidecarCommand(signals Signals, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "sidecar", Short: "The data path of one pod, which lives as long as its app", Args: cobra.NoArgs}
	var settings, account string
	var of member
	var grace time.Duration
	var once bool
	f := c.Flags()
	of.flags(f)
	f.StringVar(&settings, "settings", "{}", "how it stands in its pod, and when it leaves (sidecar.Settings, in YAML)")
	f.StringVar(&account, "service-account", os.Getenv("LASTCALL_SERVICE_ACCOUNT"), "service account of the pod; or LASTCALL_SERVICE_ACCOUNT")
	f.DurationVar(&grace, "grace", 30*time.Second, "the pod's grace period")
	f.BoolVar(&once, "once", false, "the pod's containers are not started again (restartPolicy: Never)")
	c.RunE = func(*cobra.Command, []string) error {
		s, err := sidecar.Parse(settings)
		if err != nil {
			return usageError{err}
		}
		logger := log.New(stderr, "sidecar: ", log.LstdFlags|log.Lmicroseconds)
		up, err := of.join(logger)
		if err != nil {
			return err
		}
		defer up.close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go up.known.Run(ctx)
		view := up.known.View()
		keeper := up.keeper(identity.ID{TrustDomain: identity.TrustDomain, Namespace: of.namespace, ServiceAccount: account}, identity.ID{})
		keeper.Validity = s.Validity.D()
		car := sidecar.New(sidecar.Config{
			Settings: s, Grace: grace, Listen: mesh.Pod{}.Listen, Known: view.WaitFor, Sockets: appsockets.Others,
			Processes: appprocesses.Others, Once: once,
			DropLookups: func() error { return redirect.DropLookups(nil) },
			Health:      ":" + strconv.Itoa(injector.HealthPort), Admin: s.Admin(), Log: logger,
			Path: mesh.Config{
				Network: mesh.Pod{}, Resolve: resolver(view), Log: logger, Keeper: keeper,
			},
		})
		go func() {
			select {
			case <-signals.Hide:
				car.Hide()
			case <-ctx.Done():
			}
		}()
		return component.Run(car, sidecar.ErrNeverStarted, signals.End, logger, func() { logger.Print("serves") })
	}
	return c
}
