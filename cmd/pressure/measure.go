// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// The shape of each generator: so many connections, and requests per second of all.
const (
	conns = 50
	qps   = 100
)

// generator is one common load generator, which runs until a signal.
type generator struct {
	name   string
	argv   func(addr string) []string
	signal string
	read   func(said []byte) (client, error)
}

// generators are run beside each other.
func generators() []generator {
	fortio := func(name string, more ...string) generator {
		return generator{name: name, signal: "TERM", read: readFortio, argv: func(addr string) []string {
			return append([]string{
				"agent", "pressure", "--name=" + name, "--addr=" + addr,
				"--conns=" + strconv.Itoa(conns), "--qps=" + strconv.Itoa(qps),
			}, more...)
		}}
	}
	return []generator{
		fortio("fortio, keep-alive"),
		fortio("fortio, new connections", "--fresh"),
		{name: "hey", signal: "INT", read: readHey, argv: func(addr string) []string {
			url := "http://" + addr + work.URLPath + "?" + work.Job{Bytes: work.SmallBytes}.Query()
			return []string{
				"hey", "-c", strconv.Itoa(conns), "-q", strconv.Itoa(qps / conns), "-z", "1h", "-t", "3", url,
			}
		}},
	}
}

// lookEvery is how often the recording is looked at.
const lookEvery = 200 * time.Millisecond

// measure records a fault, with the generators beside it from the steady gate to the
// tail's end.
func (p *place) measure(ctx context.Context, r *row) error {
	out := p.recording(*r)
	if _, err := os.Stat(out); err == nil { // begun, and not ended
		if err := os.Rename(out, out+".stopped-"+time.Now().UTC().Format("20060102T150405Z")); err != nil {
			return err
		}
	}
	log, err := os.Create(out + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	ended := make(chan error, 1)
	go func() {
		args := []string{"run", "--stage", "kind", "--name", p.name, "--keep", "--behaviours", r.Behaviour, "--out", out}
		if r.Fault != "" {
			args = append(args, "--fault", string(r.Fault))
		}
		ended <- command(ctx, log, filepath.Join(p.bin, "lastcall"), args...)
	}()
	clients, berr := p.beside(ctx, out, ended)
	var failed *exec.ExitError
	// A fault has to fail the run: its report says what came of it.
	if err := <-ended; err != nil && !errors.As(err, &failed) {
		return err
	}
	if berr != nil {
		return fmt.Errorf("%w (see %s)", berr, log.Name())
	}
	r.Clients = clients
	report, err := yaml.ReadDir(out)
	if err != nil {
		return fmt.Errorf("%w (see %s)", err, log.Name())
	}
	return r.fill(report, out)
}

// fill takes the probe's part from its report and its recording.
func (r *row) fill(report *v1alpha1.ConformanceReport, dir string) error {
	r.Kubernetes, r.Revision = report.Environment.Kubernetes, report.Suite.Revision
	for i := range report.Behaviours {
		b := &report.Behaviours[i]
		if b.ID != r.Behaviour {
			continue
		}
		r.Verdict, r.Reason = b.Verdict, b.Reason
		for _, f := range b.Findings {
			if f.Verdict == b.Verdict && f.Actual != "" {
				r.Reason, _, _ = strings.Cut(f.Actual, "\n")
				break
			}
		}
		tl, err := timeline.Read(filepath.Join(dir, v1alpha1.HistoryDir, b.Scenario))
		if err != nil {
			return err
		}
		r.count(tl)
		return nil
	}
	return fmt.Errorf("the report has no %s", r.Behaviour)
}

// count counts the probe's attempts from the first disruption on.
func (r *row) count(tl *timeline.Timeline) {
	r.Sent, r.Failed, r.Elsewhere, r.ElsewhereFailed = 0, 0, 0, 0
	begun := tl.EventsOf(timeline.Disruption, "")
	if len(begun) == 0 {
		return
	}
	for _, s := range tl.Samples {
		if s.End < begun[0].At || assertions.Scouts(s) {
			continue
		}
		sent, failed := &r.Elsewhere, &r.ElsewhereFailed
		if s.Stream.Flow().Path == flow.Service {
			sent, failed = &r.Sent, &r.Failed
		}
		*sent++
		if s.Failed() {
			*failed++
		}
	}
}

// beside runs the generators while the recording that is no control is made in out.
func (p *place) beside(ctx context.Context, out string, ended chan error) ([]client, error) {
	recording, err := p.await(ctx, ended, "the recording to be steady", func() string { return marked(out, "steady") })
	if err != nil {
		return nil, err
	}
	addr, err := p.service(ctx, filepath.Base(recording))
	if err != nil {
		return nil, err
	}
	type running struct {
		generator
		cmd  *exec.Cmd
		said bytes.Buffer
	}
	var all []*running
	for i, g := range generators() {
		// Its PID in a file, because docker exec passes no signal on.
		script := fmt.Sprintf(`echo $$ > /run/pressure-%d; exec "$@"`, i)
		x := &running{generator: g, cmd: exec.CommandContext(ctx, "docker", append([]string{"exec", p.node(), "sh", "-c", script, "sh"}, g.argv(addr)...)...)}
		x.cmd.Stdout, x.cmd.Stderr = &x.said, &x.said
		if err := x.cmd.Start(); err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	_, werr := p.await(ctx, ended, "the recording's tail", func() string { return marked(out, "tail") })
	var clients []client
	errs := []error{werr}
	for i, x := range all {
		_, err := docker.Output(ctx, "exec", p.node(), "sh", "-c", fmt.Sprintf("kill -%s $(cat /run/pressure-%d)", x.signal, i))
		errs = append(errs, err)
	}
	for _, x := range all {
		if err := x.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w\n%s", x.name, err, x.said.Bytes()))
			continue
		}
		c, err := x.read(x.said.Bytes())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w\n%s", x.name, err, x.said.Bytes()))
		}
		c.Name = x.name
		clients = append(clients, c)
	}
	return clients, errors.Join(errs...)
}

// await looks until it sees something, or the run is over.
func (p *place) await(ctx context.Context, ended chan error, what string, look func() string) (string, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if seen := look(); seen != "" {
			return seen, nil
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- err
			return "", fmt.Errorf("the run ended before %s: %w", what, err)
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// marked is the recording, no control, that has come to a mark, or is over. While it is
// made its events are a plain file of JSON lines.
func marked(out, mark string) string {
	dirs, err := filepath.Glob(filepath.Join(out, v1alpha1.HistoryDir, "*"))
	if err != nil {
		return ""
	}
	for _, dir := range dirs {
		if strings.HasPrefix(filepath.Base(dir), "kill-") {
			continue
		}
		events, err := os.ReadFile(filepath.Join(dir, timeline.EventsFile))
		if err == nil && bytes.Contains(events, []byte(`"what":"`+mark+`"`)) {
			return dir
		}
	}
	return ""
}

// service is the address of the app's Service in the namespace of a recording.
func (p *place) service(ctx context.Context, recording string) (string, error) {
	conf, err := clientcmd.BuildConfigFromFlags("", p.cluster.Kubeconfig())
	if err != nil {
		return "", err
	}
	cs, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return "", err
	}
	all, err := cs.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, ns := range all.Items {
		if ns.DeletionTimestamp != nil || !strings.HasSuffix(ns.Name, "-"+recording) {
			continue
		}
		svc, err := cs.CoreV1().Services(ns.Name).Get(ctx, "echo", metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("the app's Service: %w", err)
		}
		return net.JoinHostPort(svc.Spec.ClusterIP, strconv.Itoa(int(svc.Spec.Ports[0].Port))), nil
	}
	return "", fmt.Errorf("no namespace of recording %s", recording)
}

// readFortio reads the summary of agent pressure.
func readFortio(said []byte) (client, error) {
	r, err := timeline.ParseRecord(bytes.TrimSpace(said))
	if err != nil || r.Event == nil {
		return client{}, fmt.Errorf("no summary: %w", errors.Join(err, errors.New("it is no event")))
	}
	p := behaviour.PressureOf(*r.Event)
	c := client{Requests: p.Requests, Errors: p.Errors, Kinds: map[string]int{}}
	if p.SocketErrors > 0 {
		c.Kinds["no answer"] = p.SocketErrors
	}
	maps.Copy(c.Kinds, p.Statuses)
	switch {
	case p.Error != "":
		return c, errors.New(p.Error)
	case p.Requests == 0:
		return c, errors.New("it tells of no request")
	}
	return c, nil
}

var (
	heyStatus = regexp.MustCompile(`(?m)^\s*\[(\d{3})\]\t(\d+) responses$`)
	heyError  = regexp.MustCompile(`(?m)^\s*\[(\d+)\]\t(.+)$`)
)

// readHey reads hey's page: its status code distribution and its error distribution.
func readHey(said []byte) (client, error) {
	answered, failed, _ := strings.Cut(string(said), "Error distribution:")
	c := client{Kinds: map[string]int{}}
	for _, m := range heyStatus.FindAllStringSubmatch(answered, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return c, err
		}
		c.Requests += n
		if m[1] != "200" {
			c.Errors += n
			c.Kinds[m[1]] += n
		}
	}
	for _, m := range heyError.FindAllStringSubmatch(failed, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return c, err
		}
		c.Requests += n
		c.Errors += n
		c.Kinds["no answer"] += n
	}
	if c.Requests == 0 {
		return c, errors.New("it tells of no request")
	}
	return c, nil
}
