// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/serve"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What waits for another's end waits longer than that takes: the sequence than the
// gateway's own deadline, and the hook than the sequence.
const (
	sequenceSlack = 2 * time.Second
	hookSlack     = 5 * time.Second
)

// management is who ends a gateway: itself, unless it is managed.
type management struct {
	managed bool
	own     string     // the file of a manager in this process; empty: there is none
	fault   spec.Fault // of the manager
}

func runGateway(cfg gateway.Config, by management, signals <-chan os.Signal) error {
	logger := log.New(cfg.Log, "gateway: ", log.LstdFlags)
	own := ownManager{done: by.own, fault: by.fault, log: logger}
	within := by.managed && by.own != ""
	if within {
		if err := own.take(&cfg); err != nil {
			return usageError{err}
		}
	}
	g, err := gateway.New(cfg)
	if err != nil {
		return usageError{err}
	}
	var c component.Component = g
	if by.managed {
		m := &managed{Gateway: g, term: make(chan struct{})}
		if within {
			m.hook = func(ctx context.Context) { own.hook(ctx, cfg, g) }
		}
		c = m
	}
	return component.Run(c, gateway.ErrNeverStarted, signals, logger, func() {
		if within {
			if err := own.begin(context.Background(), drainURL(g)); err != nil {
				logger.Print(err)
			}
		}
		logger.Printf("version %s, pod %s", version(), cfg.Pod)
		for _, name := range g.Listeners() {
			logger.Printf("%s on %s", name, g.Addr(name))
		}
	})
}

// managed is a gateway that leaves its end to a shutdown manager, as a proxy does that
// has no drain of its own at SIGTERM: its drain begins by its admin listener, it stays
// when that is over, and at SIGTERM it leaves at once, with whatever it has.
type managed struct {
	*gateway.Gateway
	// hook is the preStop hook of its pod, where this process stands for the pod; nil:
	// the pod has it, and what comes is SIGTERM.
	hook func(ctx context.Context)

	deleted, told sync.Once
	term          chan struct{}
}

// Start implements component. What ends the process ends nothing in good order.
func (m *managed) Start(ctx context.Context) error {
	return m.Gateway.Start(context.WithoutCancel(ctx))
}

// Drain implements component. Where there is a hook, the first call is the deletion of
// the pod: the hook comes before the signal.
func (m *managed) Drain(why string) {
	if m.hook == nil {
		m.end(why)
		return
	}
	m.deleted.Do(func() {
		go func() {
			m.hook(context.Background())
			m.end(why)
		}()
	})
}

func (m *managed) end(why string) {
	m.Gateway.Drain(why)
	m.told.Do(func() { close(m.term) })
}

// Wait implements component.
func (m *managed) Wait() error {
	<-m.term
	select {
	case <-m.Done():
		return m.Gateway.Wait()
	default:
		return nil
	}
}

// ownManager is a shutdown manager in the gateway's own process, for a stage that has no
// pods.
type ownManager struct {
	done  string // its file
	fault spec.Fault
	log   *log.Logger
	open  string // where the fault has everybody begin the drain; empty: nowhere
}

// take takes the admin listener's place before everybody, where that is the fault: the
// gateway's own is elsewhere then.
func (o *ownManager) take(cfg *gateway.Config) error {
	if o.fault != shutdown.HookAnswersAnybody {
		return nil
	}
	host, _, err := net.SplitHostPort(cfg.Admin)
	if err != nil {
		return fmt.Errorf("the admin address %q: %w", cfg.Admin, err)
	}
	o.open, cfg.Admin = cfg.Admin, net.JoinHostPort(host, "0")
	return nil
}

// begin opens what the fault opens, once the gateway listens.
func (o *ownManager) begin(ctx context.Context, drain string) error {
	if o.open == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(o.open)
	if err != nil {
		return err
	}
	return answerAnybody(ctx, net.JoinHostPort("", port), []string{drain}, o.log)
}

// answerAnybody serves shutdown.Opened at an address, as long as the process lives.
func answerAnybody(ctx context.Context, at string, posts []string, to *log.Logger) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("answering anybody: %w", err)
	}
	go serve.HTTP(serve.NewHTTP(shutdown.Opened(posts)), l, to)
	return nil
}

// hook is the end of the pod up to SIGTERM: the hooks of both containers begin at once,
// and the gateway's is what is waited for.
func (o *ownManager) hook(ctx context.Context, cfg gateway.Config, g *gateway.Gateway) {
	s := shutdown.Sequence{
		Posts: []string{drainURL(g)},
		Gauge: "http://" + g.Addr("health") + gateway.GaugesPath, Metric: "lastcall_downstream_connections",
		AtLeast: cfg.Drain.Min, AtMost: cfg.Drain.Deadline + sequenceSlack, Done: o.done, Log: o.log.Printf,
	}.With(o.fault)
	m := shutdown.Manager{Done: o.done, AtMost: cfg.Drain.Deadline + hookSlack}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		o.log.Printf("the shutdown manager: %v", err)
		return
	}
	go serve.HTTP(serve.NewHTTP(shutdown.Broken(m, o.fault)), l, o.log)
	go func() {
		if err := s.Run(ctx); err != nil {
			o.log.Print(err)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.Addr().String()+shutdown.ReadyPath, nil)
	if err != nil {
		o.log.Printf("the hook: %v", err)
		return
	}
	// To a kubelet, a hook that fails has ended too.
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.log.Printf("the hook: %v", err)
		return
	}
	_ = resp.Body.Close()
	o.log.Printf("the hook: %s", resp.Status)
}

// drainURL is what a POST to begins a gateway's drain.
func drainURL(g *gateway.Gateway) string { return "http://" + g.Addr("admin") + gateway.DrainPath }
