// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/load/control"
)

// channel is the flags of an agent that the runner speaks to.
type channel struct {
	listen, tls, spool string
	drain              time.Duration
}

func channelFlags(c *cobra.Command) *channel {
	var ch channel
	c.Flags().StringVar(&ch.listen, "listen", ":7443", "address of the control channel")
	c.Flags().StringVar(&ch.tls, "tls", "", "folder with ca.crt, tls.crt and tls.key of this agent")
	c.Flags().StringVar(&ch.spool, "spool", "", "folder for the history until it was fetched")
	c.Flags().DurationVar(&ch.drain, "drain", 20*time.Second, "how long, after SIGTERM, what is in flight may take")
	return &ch
}

// open reads the credentials, makes the spool and listens.
func (ch *channel) open(ctx context.Context) (*control.Spool, net.Listener, control.Credentials, error) {
	fail := func(err error) (*control.Spool, net.Listener, control.Credentials, error) {
		return nil, nil, control.Credentials{}, err
	}
	if ch.tls == "" || ch.spool == "" {
		return fail(usage("--tls and --spool are needed: the control channel is never open without credentials"))
	}
	creds, err := control.ReadCredentials(ch.tls)
	if err != nil {
		return fail(err)
	}
	spool, err := control.NewSpool(ch.spool)
	if err != nil {
		return fail(err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ch.listen)
	if err != nil {
		return fail(errors.Join(fmt.Errorf("listening for the runner: %w", err), spool.Close()))
	}
	return spool, l, creds, nil
}

// serve runs s until ctx ends.
func (ch *channel) serve(ctx context.Context, s *control.Server, l net.Listener, creds control.Credentials, id *identity, stderr io.Writer) error {
	s.Node, s.Pod, s.Version = id.node, id.podUID, version()
	s.Log = log.New(stderr, s.Role+": ", log.LstdFlags)
	s.Log.Printf("version %s, control channel on %s", s.Version, l.Addr())
	return errors.Join(s.Serve(ctx, l, creds, ch.drain), s.Spool.Close())
}
