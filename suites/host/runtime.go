// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/appsockets"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/bench/chain"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/enrolment"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// runtimeNode is the name of the node whose runtime the stage is. Nothing else is on it, so that its agent and
// its proxy can be stopped and ended.
const runtimeNode = "host-runtime"

// How much the runtime calls. What is done to one pod takes the same time done to five side by side.
const (
	callsEach     = 5  // pods of each state of agent and proxy
	callsReplaced = 10 // pods that are ended while the proxy is replaced
	callsBoth     = 2  // of these, while both proxies serve and the old one was not told to go
	callsBefore   = 3  // of the others, before it is told to go
	callsAdded    = 4  // pods that begin while the proxy is replaced, half of them before the old one is told to go
	callsHung     = 2  // pods that are ended while the proxy hangs that was told to go
	callsOthers   = 2  // pods that are in no mesh, of each state
	callsAgain    = 3  // pods of which DEL is called three times
	callsOld      = 2  // pods that get another sandbox, and whose first one has not ended by then; and as many whose first one has
	callsAtOnce   = 4  // pods that begin at once
)

// callsApart is how long after one pod the next one is ended while the proxy is replaced, and callBudget how
// long a call may take at most: more than twice what the plugin allows itself.
const (
	callsApart = 300 * time.Millisecond
	callBudget = 12 * time.Second
)

// hungFor is how long a proxy hangs before it is killed: for less than an agent waits for an acknowledgement.
const hungFor = 500 * time.Millisecond

// runtimeCalls are those of a node's runtime.
type runtimeCalls struct {
	*meshed
	node         *nodeSide
	agent, proxy string   // how they are (timeline.CNIUp...)
	claimed      []string // versions that VERSION named
}

// calledPod is a pod that the runtime has made, with nothing in it.
type calledPod struct {
	chain.Attachment
	sandbox chain.Sandbox
	pod     *corev1.Pod
	net     *bench.Pod
	others  bool // it is in no mesh
}

// callPlugin calls the mesh's plugin as a node's runtime does.
func (m *meshed) callPlugin(ctx context.Context) error {
	n, err := m.openNode(ctx, 0, runtimeNode, filepath.Join(m.dir, "calls"))
	if err != nil {
		return err
	}
	r := &runtimeCalls{meshed: m, node: n, agent: timeline.CNIUp, proxy: timeline.CNIUp}
	for _, step := range []func(context.Context) error{r.versions, r.again, r.collect, r.resandbox, r.states} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// open makes pods, whose networks nobody has attached yet.
func (r *runtimeCalls) open(by *chain.Chain, called string, many int) ([]*calledPod, error) {
	var out []*calledPod
	for nth := range many {
		p, err := r.openOne(by, called+"-"+strconv.Itoa(nth+1))
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", called, err)
		}
		out = append(out, p)
	}
	return out, nil
}

func (r *runtimeCalls) openOne(by *chain.Chain, name string) (*calledPod, error) {
	made, err := r.bench.network.PodOn(r.node.nth)
	if err != nil {
		return nil, err
	}
	p := &calledPod{net: made}
	p.pod, err = r.bench.admit(r.namespace, r.node.name, name, name, made.Addr().String(), corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{membership.DataplaneLabel: membership.NodeDataplane},
		Annotations: map[string]string{membership.AgentAnnotation: r.namespace},
	}})
	if err == nil {
		err = r.tell(p.pod)
	}
	if err == nil {
		p.sandbox, err = r.node.sandbox(p.pod)
	}
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	p.Attachment = by.Of(p.sandbox)
	return p, nil
}

// openOthers makes pods that say nothing of a mesh, and that the agent knows as in none.
func (r *runtimeCalls) openOthers(called string) ([]*calledPod, error) {
	all, err := r.open(r.node.runtime, called, callsOthers)
	for _, p := range all {
		p.others, p.sandbox.Annotations = true, nil
		p.Attachment = r.node.runtime.Of(p.sandbox)
		err = errors.Join(err, r.node.enrol(p.pod, false))
	}
	return all, err
}

// close takes pods away.
func (r *runtimeCalls) close(all ...*calledPod) error {
	var errs []error
	for _, p := range all {
		r.mu.Lock()
		delete(r.pods, string(p.pod.UID))
		r.listed(p.pod.Name, timeline.ListedGone)
		errs = append(errs, r.bench.drop(fileOf(p.pod)))
		r.mu.Unlock()
		errs = append(errs, p.net.Close())
	}
	return errors.Join(errs...)
}

// call tells of a call, of no pod where there is none.
func (r *runtimeCalls) call(ctx context.Context, command string, p *calledPod, attrs map[string]string, do func(context.Context, map[string]string) error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callBudget, fmt.Errorf("not within %s", callBudget))
	defer cancel()
	e := timeline.Event{Source: "runner", Kind: timeline.CNICall, Node: r.node.name, Attrs: map[string]string{
		"command": command, "agent": r.agent, "proxy": r.proxy,
	}}
	for k, v := range attrs {
		e.Attrs[k] = v
	}
	if p != nil {
		e.Subject, e.Name = string(p.pod.UID), p.pod.Name
		if p.others {
			e.Attrs["others"] = "true"
		}
	}
	begun := timeline.Monotonic()
	err := do(ctx, e.Attrs)
	e.At = timeline.Monotonic()
	e.Attrs["took"] = (e.At - begun).String()
	if err != nil {
		e.Attrs["error"] = err.Error()
		if ctx.Err() != nil { // who is killed says nothing
			e.Attrs["error"] = context.Cause(ctx).Error()
		}
	}
	r.sink.Event(e)
}

func (r *runtimeCalls) add(ctx context.Context, p *calledPod, attrs map[string]string) {
	r.call(ctx, "ADD", p, attrs, func(ctx context.Context, attrs map[string]string) (err error) {
		var lacks []string
		if attrs["result"], lacks, err = p.Result(ctx, p.net); len(lacks) > 0 {
			attrs["lacks"] = strings.Join(lacks, " ")
		}
		return err
	})
}

// addAll begins pods, some of them at once.
func (r *runtimeCalls) addAll(ctx context.Context, pods []*calledPod) {
	var all sync.WaitGroup
	at := make(chan struct{}, callsAtOnce)
	for _, p := range pods {
		all.Go(func() {
			at <- struct{}{}
			r.add(ctx, p, nil)
			<-at
		})
	}
	all.Wait()
}

// del ends a pod, by a DEL of the first time or a later one.
func (r *runtimeCalls) del(ctx context.Context, p *calledPod, again bool, attrs map[string]string) {
	r.call(ctx, "DEL", p, attrs, func(ctx context.Context, attrs map[string]string) error {
		attrs["noted"] = strconv.FormatBool(r.noted(p))
		call := func() error { return p.Del(ctx, p.net) }
		if again {
			attrs["again"], call = "true", func() error { return p.DelAgain(ctx) }
		}
		err := call()
		attrs["left"] = strconv.FormatBool(r.noted(p))
		if held, looked := p.net.Held(); looked == nil && !again {
			attrs["held"] = appsockets.Words(held)
		}
		return err
	})
}

func (r *runtimeCalls) delAll(ctx context.Context, pods []*calledPod) {
	var all sync.WaitGroup
	for _, p := range pods {
		all.Go(func() { r.del(ctx, p, false, nil) })
	}
	all.Wait()
}

// noted says whether the plugin has a note of a pod.
func (r *runtimeCalls) noted(p *calledPod) bool {
	_, err := enrolment.Store(r.node.in("noted")).Read(p.sandbox.ID, bench.Interface)
	return err == nil
}

// versions calls ADD, CHECK and DEL in each version that the plugin claims.
func (r *runtimeCalls) versions(ctx context.Context) error {
	var all []string
	r.call(ctx, "VERSION", nil, nil, func(ctx context.Context, attrs map[string]string) (err error) {
		all, err = r.node.runtime.Versions(ctx)
		attrs["versions"] = strings.Join(all, " ")
		return err
	})
	pods, err := r.open(r.node.runtime, "version", len(all))
	if err != nil {
		return err
	}
	r.claimed = all
	for n, v := range all {
		p, of := pods[n], map[string]string{"version": v}
		p.Attachment = p.As(v)
		r.add(ctx, p, of)
		if chain.Checks(v) {
			check := func(ctx context.Context, _ map[string]string) error { return p.Check(ctx, p.net) }
			r.call(ctx, "CHECK", p, of, check)
			if err := p.bare(); err != nil {
				return err
			}
			r.call(ctx, "CHECK", p, map[string]string{"version": v, "bare": "true"}, check)
		}
		r.del(ctx, p, false, of)
	}
	return r.close(pods...)
}

// bare takes away what redirects the pod's connections.
func (p *calledPod) bare() error {
	space, err := os.Open(p.net.Namespace())
	if err != nil {
		return err
	}
	return errors.Join(redirect.Remove(space), space.Close())
}

// again calls DEL of the same pods three times, each pod's in a version of its own.
func (r *runtimeCalls) again(ctx context.Context) error {
	pods, err := r.open(r.node.runtime, "again", callsAgain)
	if err != nil {
		return err
	}
	for n, p := range pods { // in the oldest version, one in the middle, and the newest
		if last := len(r.claimed) - 1; last > 0 {
			p.Attachment = p.As(r.claimed[n*last/(len(pods)-1)])
		}
	}
	r.addAll(ctx, pods)
	r.delAll(ctx, pods)
	// The runtime takes the namespace away, and comes again later.
	if err := r.close(pods...); err != nil {
		return err
	}
	for range 2 {
		for _, p := range pods {
			r.del(ctx, p, true, nil)
		}
	}
	return nil
}

// collect calls GC, of a runtime that has lost its own notes: what is stale, the plugin alone knows.
func (r *runtimeCalls) collect(ctx context.Context) error {
	forgot, elsewhere := r.chain(r.node), r.chain(r.node)
	forgot.Cache, elsewhere.Network = r.node.in("cache-lost"), "elsewhere"
	stale, err := r.open(r.node.runtime, "stale", 2)
	if err != nil {
		return err
	}
	there, err := r.open(r.node.runtime, "there", 2)
	if err != nil {
		return err
	}
	// What is another network's is no business of this one's GC.
	other, err := r.open(chain.New(elsewhere), "elsewhere", 1)
	if err != nil {
		return err
	}
	var valid []chain.Sandbox
	for _, p := range there {
		valid = append(valid, p.sandbox)
	}
	kept := slices.Concat(there, other)
	all := slices.Concat(stale, kept)
	r.addAll(ctx, all)
	r.call(ctx, "GC", nil, map[string]string{"stale": namesOf(stale, nil), "there": namesOf(kept, nil), "before": namesOf(all, r.noted)}, func(ctx context.Context, attrs map[string]string) error {
		err := chain.New(forgot).Collect(ctx, valid)
		attrs["noted"], attrs["served"] = namesOf(all, r.noted), namesOf(all, served)
		return err
	})
	r.delAll(ctx, all)
	return r.close(all...)
}

// resandbox gives pods another sandbox, as a kubelet does when what held their network has died, and has DEL of the first
// one come behind that: to some for the first time, and to the others once more.
func (r *runtimeCalls) resandbox(ctx context.Context) error {
	old, err := r.open(r.node.runtime, "sandbox", 2*callsOld)
	if err != nil {
		return err
	}
	late, once := old[:callsOld], old[callsOld:]
	r.addAll(ctx, old)
	r.delAll(ctx, once)
	var next []*calledPod
	for _, p := range old {
		in, err := r.next(p)
		if err != nil {
			return err
		}
		next = append(next, in)
		r.add(ctx, in, map[string]string{"sandbox": timeline.CNINextSandbox})
	}
	for i, p := range old {
		attrs := map[string]string{"sandbox": timeline.CNIOldSandbox, "before": next[i].has(r)}
		r.call(ctx, "DEL", p, attrs, func(ctx context.Context, attrs map[string]string) (err error) {
			attrs["noted"] = strconv.FormatBool(r.noted(p))
			if i < len(late) {
				err = p.Del(ctx, p.net)
			} else {
				attrs["again"], err = "true", p.DelAgain(ctx)
			}
			attrs["left"], attrs["behind"] = strconv.FormatBool(r.noted(p)), next[i].has(r)
			return err
		})
	}
	r.delAll(ctx, next)
	var errs []error
	for _, p := range next {
		errs = append(errs, p.net.Close())
	}
	return errors.Join(append(errs, r.close(old...))...)
}

// next is a pod in its next sandbox, which nobody has attached yet.
func (r *runtimeCalls) next(p *calledPod) (*calledPod, error) {
	made, err := r.bench.network.PodOn(r.node.nth)
	if err != nil {
		return nil, err
	}
	out := *p
	out.net = made
	out.sandbox.ID += "-next"
	out.Attachment = r.node.runtime.Of(out.sandbox)
	return &out, nil
}

// has says what the mesh has of a pod's sandbox.
func (p *calledPod) has(r *runtimeCalls) string {
	var out []string
	if r.noted(p) {
		out = append(out, "noted")
	}
	if served(p) {
		out = append(out, "served")
	}
	return strings.Join(out, " ")
}

// served says whether somebody serves a pod.
func served(p *calledPod) bool {
	held, err := p.net.Held()
	return err == nil && len(held) > 0
}

// namesOf are those of the pods of which something is so; nil: of all.
func namesOf(pods []*calledPod, is func(*calledPod) bool) string {
	var out []string
	for _, p := range pods {
		if is == nil || is(p) {
			out = append(out, p.pod.Name)
		}
	}
	return strings.Join(out, " ")
}

// states ends pods while the proxy is replaced, stopped and dead, and then the agent. Between them all is well,
// and at the end nothing is.
func (r *runtimeCalls) states(ctx context.Context) error {
	var all []*calledPod
	pods := func(called string, many int) (out []*calledPod) {
		made, err := r.open(r.node.runtime, called, many)
		if err != nil {
			return nil
		}
		all = append(all, made...)
		return made
	}
	replaced, hung := pods("replaced", callsReplaced), pods("hung", callsHung)
	stopped, dead := pods("proxy-stopped", callsEach), pods("proxy-dead", callsEach)
	mute, gone := pods("agent-stopped", callsEach), pods("agent-dead", callsEach)
	if len(gone) == 0 {
		return errors.New("not all pods could be made")
	}
	r.addAll(ctx, all)
	added, err := r.open(r.node.runtime, "added", callsAdded) // which begin later
	if err != nil {
		return err
	}
	all = append(all, added...)
	var others [][]*calledPod // of each state but the first
	for nth := range 4 {
		some, err := r.openOthers("others-" + strconv.Itoa(nth+1))
		if err != nil {
			return err
		}
		others, all = append(others, some), append(all, some...)
	}
	r.status(ctx)
	if err := r.unwritable(ctx); err != nil {
		return err
	}
	if err := r.whileReplaced(ctx, replaced, hung, added, stopped[0]); err != nil {
		return err
	}
	proxy := r.node.last()
	if err := proxy.running.Stop(); err != nil {
		return err
	}
	r.endAs(ctx, timeline.CNIUp, timeline.CNIStopped, stopped, others[0])
	close(proxy.told)
	proxy.running.Kill()
	r.endAs(ctx, timeline.CNIUp, timeline.CNIDead, dead, others[1])
	if err := r.startProxy(ctx, r.node); err != nil {
		return err
	}
	if err := r.node.running.Stop(); err != nil {
		return err
	}
	r.endAs(ctx, timeline.CNIStopped, timeline.CNIUp, mute, others[2])
	close(r.node.ends)
	r.node.running.Kill()
	r.endAs(ctx, timeline.CNIDead, timeline.CNIUp, gone, others[3])
	return r.close(all...)
}

// endAs ends pods, all at once, asks for the plugin's state beside that, and has others begin and end that are in no mesh.
func (r *runtimeCalls) endAs(ctx context.Context, agent, proxy string, pods, others []*calledPod) {
	r.agent, r.proxy = agent, proxy
	var all sync.WaitGroup
	all.Go(func() { r.status(ctx) })
	all.Go(func() {
		r.addAll(ctx, others)
		r.delAll(ctx, others)
	})
	r.delAll(ctx, pods)
	all.Wait()
}

func (r *runtimeCalls) status(ctx context.Context) {
	r.call(ctx, "STATUS", nil, nil, func(ctx context.Context, _ map[string]string) error { return r.node.runtime.Status(ctx) })
}

// unwritable asks for the state of a plugin that can't write its folder: whatever its rights are.
func (r *runtimeCalls) unwritable(ctx context.Context) error {
	file := r.node.in("no-folder")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	cfg := r.chain(r.node)
	cfg.State = enrolment.Store(file)
	r.call(ctx, "STATUS", nil, map[string]string{"writable": "false"}, func(ctx context.Context, _ map[string]string) error { return chain.New(cfg).Status(ctx) })
	return nil
}

// whileReplaced ends one pod after the other from the start of a proxy's successor on. The proxy is not gone
// before the last of them has ended: it carries a connection. More end when it hangs. Others begin meanwhile, and ask
// an instance something, then and when the proxy has gone.
func (r *runtimeCalls) whileReplaced(ctx context.Context, pods, hung, added []*calledPod, from *calledPod) error {
	carried, err := r.converse(ctx, from)
	if err != nil {
		return err
	}
	defer carried.Close()
	r.proxy = timeline.CNIReplaced
	old := r.node.last()
	over := make(chan struct{}) // closed when the old one won't be told to go
	both, pods := pods[:callsBoth], pods[callsBoth:]
	var all sync.WaitGroup
	all.Go(func() {
		for n, p := range pods {
			if n == callsBefore {
				select {
				case <-old.told:
				case <-over:
					return
				}
			}
			if old.gone() {
				return // no more is replaced
			}
			all.Go(func() { r.del(ctx, p, false, nil) })
			all.Go(func() { r.status(ctx) })
			if disrupt.Pause(ctx, callsApart) != nil {
				return
			}
		}
	})
	err = r.startProxy(ctx, r.node)
	if err == nil {
		r.addAll(ctx, added[:len(added)/2])
		r.delAll(ctx, both)
		err = r.endProxy(r.node, old, nil)
	}
	if err != nil {
		close(over)
	}
	if err == nil && !old.gone() {
		r.addAll(ctx, added[len(added)/2:])
	}
	if err == nil && !old.gone() {
		r.askAll(ctx, added)
	}
	all.Wait()
	if err == nil {
		err = r.whileHung(ctx, old, hung)
	}
	if err != nil {
		return err
	}
	if err := carried.Close(); err != nil {
		return err
	}
	if err := old.running.Await(ctx); err != nil {
		return err
	}
	r.proxy = timeline.CNIUp
	r.askAll(ctx, added)
	r.delAll(ctx, added)
	return nil
}

// askAll asks an instance something from within each of some pods.
func (r *runtimeCalls) askAll(ctx context.Context, pods []*calledPod) {
	var all sync.WaitGroup
	for _, p := range pods {
		all.Go(func() {
			e := timeline.Event{
				Source: "runner", Kind: timeline.PodAsked, Subject: string(p.pod.UID), Name: p.pod.Name, Node: r.node.name,
				Attrs: map[string]string{"proxy": r.proxy},
			}
			begun := timeline.Monotonic()
			c, err := r.converse(ctx, p)
			if err == nil {
				err = c.Close()
			}
			if held, unseen := meshHeld(p.net); unseen == nil {
				e.Attrs["held"] = appsockets.Words(held)
			}
			e.At = timeline.Monotonic()
			e.Attrs["took"] = (e.At - begun).String()
			if err != nil {
				e.Attrs["error"] = err.Error()
			}
			r.sink.Event(e)
		})
	}
	all.Wait()
}

// whileHung ends pods while a proxy that was told to go does nothing any more. It is killed then, as at the end of a
// grace period, and has acknowledged none of them.
func (r *runtimeCalls) whileHung(ctx context.Context, old *nodeProxy, pods []*calledPod) error {
	if old.gone() {
		return nil // and nothing is shown
	}
	if err := old.running.Stop(); err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, p := range pods {
		all.Go(func() { r.del(ctx, p, false, map[string]string{"old": timeline.CNIStopped}) })
	}
	err := disrupt.Pause(ctx, hungFor)
	old.running.Kill()
	all.Wait()
	return err
}

// converse opens a connection from a pod to an instance, through the pod's proxy, and has it answered once.
func (r *runtimeCalls) converse(ctx context.Context, from *calledPod) (net.Conn, error) {
	to := net.JoinHostPort(r.fleet.Backends()[0].Address, strconv.Itoa(r.subject.Ports[behaviour.PortOf(flow.HTTP1)]))
	ctx, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	c, err := from.net.Dial(ctx, "tcp", to)
	if err != nil {
		return nil, fmt.Errorf("a connection from %s: %w", from.pod.Name, err)
	}
	until, _ := ctx.Deadline()
	err = c.SetDeadline(until)
	if err == nil {
		_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", to)
	}
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a connection from %s to %s: %w", from.pod.Name, to, err), c.Close())
	}
	return c, nil
}
