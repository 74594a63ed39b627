// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/subscriber"
)

// subscribeCommand writes down what discovery says: by that it is judged.
func subscribeCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "subscribe", Short: "Write down what a mesh's discovery says of a namespace's pods", Args: cobra.NoArgs}
	var cfg subscriber.Config
	var controllers, serverName, roots, ledger string
	f := c.Flags()
	f.StringVar(&controllers, "controller", "", "IPs of the mesh's controllers: IP,IP")
	f.StringVar(&serverName, "server-name", "", "name of the controller in its certificate")
	f.StringVar(&roots, "roots", os.Getenv("LASTCALL_ROOTS"), "whom the mesh trusts, PEM; or LASTCALL_ROOTS")
	f.StringVar(&cfg.Name, "name", "", "who it is: the name of its file in the ledger")
	f.StringVar(&cfg.Namespace, "namespace", "", "whose pods it writes of")
	f.StringVar(&ledger, "ledger", "", "folder that it writes to")
	c.RunE = func(*cobra.Command, []string) error {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(roots)) {
			return usage("--roots: no certificate in PEM")
		}
		var err error
		if cfg.Servers, err = servers(controllers); err != nil {
			return err
		}
		cfg.Dial = []grpc.DialOption{
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: serverName})),
		}
		to, err := echo.OpenFileLedger(ledger, cfg.Name)
		if err != nil {
			return err
		}
		logger := log.New(stderr, "subscriber: ", log.LstdFlags|log.Lmicroseconds)
		cfg.Emit = func(e timeline.Event) {
			logger.Print(e.Attrs)
			if err := to.Append(timeline.Record{Event: &e}); err != nil {
				logger.Print(err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			<-signals
			cancel()
		}()
		subscriber.Run(ctx, cfg)
		return errors.Join(to.Close())
	}
	return c
}
