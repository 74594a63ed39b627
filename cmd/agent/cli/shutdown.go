// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
)

// shutdownCommand is the preStop command of a shutdown manager's container.
func shutdownCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "shutdown", Short: "End a proxy from inside its pod: begin its drain, and wait until its clients are gone", Args: noArgs}
	s := shutdown.Sequence{Log: log.New(stderr, "shutdown: ", log.LstdFlags).Printf}
	f := c.Flags()
	f.StringArrayVar(&s.Posts, "post", nil, "URL that is posted to; again for more, in their order")
	f.StringVar(&s.Gauge, "gauge", "", "URL of a page in the Prometheus text format")
	f.StringVar(&s.Metric, "metric", "", "what in it says how many clients are left")
	f.DurationVar(&s.AtLeast, "at-least", 0, "how long it lasts whoever is left")
	f.DurationVar(&s.AtMost, "at-most", 0, "how long it waits for those who are left")
	f.StringVar(&s.Done, "done", "", "file that tells the shutdown manager")
	var fault string
	faultFlag(c, &fault, managedFaults())
	c.RunE = func(*cobra.Command, []string) error {
		broken, err := fixtures.Find(managedFaults(), fault)
		if err != nil {
			return usageError{err}
		}
		if err := s.Validate(); err != nil {
			return usageError{err}
		}
		ctx, cancel := untilSignal(signals)
		defer cancel()
		return s.With(broken).Run(ctx)
	}
	return c
}

// managerGrace is how long the manager lets what is asked end when it is told to
// leave.
const managerGrace = time.Second

// shutdownManagerCommand is the server of that container.
func shutdownManagerCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "shutdown-manager", Short: "Let a proxy's preStop hook wait for the shutdown command", Args: noArgs}
	var m shutdown.Manager
	var listen string
	f := c.Flags()
	f.StringVar(&listen, "listen", ":19002", "address of "+shutdown.ReadyPath)
	f.StringVar(&m.Done, "done", "", "file of the shutdown command")
	f.DurationVar(&m.AtMost, "at-most", 0, "how long a hook waits: longer than the shutdown command takes")
	var fault, open string
	var posts []string
	faultFlag(c, &fault, managedFaults())
	f.StringVar(&open, "open", "", "with the fault "+string(shutdown.HookAnswersAnybody)+": address at which anybody begins the drain")
	f.StringArrayVar(&posts, "post", nil, "and URL that is posted to then; again for more")
	c.RunE = func(*cobra.Command, []string) error {
		broken, err := fixtures.Find(managedFaults(), fault)
		if err != nil {
			return usageError{err}
		}
		if m.Done == "" || m.AtMost <= 0 {
			return usage("give --done, the file of the shutdown command, and --at-most")
		}
		ctx, cancel := untilSignal(signals)
		defer cancel()
		logger := log.New(stderr, "shutdown-manager: ", log.LstdFlags)
		if broken == shutdown.HookAnswersAnybody {
			if err := answerAnybody(ctx, open, posts, logger); err != nil {
				return err
			}
		}
		return serveManager(ctx, listen, shutdown.Broken(m, broken), logger)
	}
	return c
}

func serveManager(ctx context.Context, listen string, m http.Handler, logger *log.Logger) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	logger.Printf("version %s, %s on %s", version(), shutdown.ReadyPath, l.Addr())
	// No bound on the answer: it comes when the drain is over.
	s := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), managerGrace)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		_ = s.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
