// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/serve"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/peer"
)

func peerCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "peer", Short: "Take tunnels for an app, and misbehave when it is told to", Args: noArgs}
	id := identityFlags(c)
	where := newLedgerFlags(c, "collector-tls", "the process")
	var path, listen, health, creds string
	f := c.Flags()
	f.StringVar(&path, "path", "", "what is wrong with it: a path to peers of the suite's own, as in flows")
	f.StringVar(&listen, "listen", ":15008", "address of tunnels")
	f.StringVar(&health, "health", ":15021", "address of GET "+peer.ReadyPath+", and of POST "+peer.BeginPath+", from which on it misbehaves")
	f.StringVar(&creds, "tls", "", "folder with "+control.CAFile+", "+control.CertFile+" and "+control.KeyFile+" of the mesh")
	c.RunE = func(*cobra.Command, []string) (err error) {
		ctx, cancel := untilSignal(signals)
		defer cancel()
		cred, err := control.ReadCredentials(creds)
		if err != nil {
			return usageError{err}
		}
		config, err := cred.ServerTLS()
		if err != nil {
			return usageError{err}
		}
		ledger, err := where.open(id.podUID, stderr)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, closeLedger(ledger)) }()
		logger := log.New(stderr, "peer: ", log.LstdFlags)
		s, err := peer.New(peer.Config{Path: flow.Path(path), TLS: config, Emit: func(e timeline.Event) {
			e.Node = id.node
			if err := ledger.Append(timeline.Record{Event: &e}); err != nil {
				logger.Printf("%s is missing in the ledger: %v", e.Attrs["what"], err)
			}
		}})
		if err != nil {
			return usageError{err}
		}
		tunnels, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
		if err != nil {
			return fmt.Errorf("tunnels: %w", err)
		}
		asked, err := (&net.ListenConfig{}).Listen(ctx, "tcp", health)
		if err != nil {
			return errors.Join(fmt.Errorf("health: %w", err), tunnels.Close())
		}
		go func() {
			<-ctx.Done()
			_ = tunnels.Close()
		}()
		server := serve.NewHTTP(s.Handler())
		go serve.HTTP(server, asked, logger)
		logger.Printf("version %s, %s on %s", version(), path, tunnels.Addr())
		err = s.Serve(tunnels)
		_ = server.Close()
		s.Close()
		return err
	}
	return c
}
