// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// step makes one directory out of its inputs and the directories of the steps
// that it needs. Two steps with equal keys make the same thing.
type step struct {
	name   string   // unique in a plan, and the start of its directory's name
	title  string   // for people: "etcd 3.6.5-0"
	inputs []string // all that build depends on besides needs; the recipe's own revision too
	needs  []string // names of earlier steps of the plan
	// build fills dir; in maps each needed step's name to its directory.
	build func(ctx context.Context, dir string, in map[string]string) error
	// have, if set, replaces the look into the cache directory: the result lives
	// elsewhere (in docker) and build's dir is thrown away.
	have func(ctx context.Context) (bool, error)
}

// State of a step in an Event.
type State string

// The states, in the order in which a step can pass through them.
const (
	Hit     State = "cache hit"                        // found, nothing to do
	Unused  State = "not needed"                       // what needs it was found
	Started State = "cache miss, building"             // build begins
	Done    State = "done"                             // build ended
	Failed  State = "failed"                           // build ended with Err
	Waiting State = "waiting for another build to end" // another process holds the cache
)

// Event is one thing that happened while building.
type Event struct {
	Step     string // title, "etcd 3.6.5-0"; empty for Waiting
	N, Total int    // 1-based place of the step in the plan
	State    State
	Elapsed  time.Duration // since Started, for Done and Failed
	Err      error         // for Failed
}

// String is one line for a log: "[3/12] etcd 3.6.5-0: done in 41s".
func (e Event) String() string {
	if e.Step == "" {
		return string(e.State)
	}
	head := fmt.Sprintf("[%d/%d] %s: %s", e.N, e.Total, e.Step, e.State)
	switch e.State {
	case Done:
		return head + " in " + e.Elapsed.Round(100*time.Millisecond).String()
	case Failed:
		first, _, _ := strings.Cut(e.Err.Error(), "\n")
		return head + " after " + e.Elapsed.Round(100*time.Millisecond).String() + ": " + first
	default:
		return head
	}
}

// keysOf gives each step's key: 64 hex digits over its name, inputs and the keys
// of what it needs. Steps must come after those that they need.
func keysOf(steps []step) map[string]string {
	keys := make(map[string]string, len(steps))
	for _, s := range steps {
		needs := make([]string, 0, len(s.needs))
		for _, n := range s.needs {
			needs = append(needs, keys[n])
		}
		// %q keeps the borders between strings, so that "ab","c" is not "a","bc".
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", s.name, s.inputs, needs))
		keys[s.name] = hex.EncodeToString(sum[:])
	}
	return keys
}

// cache is a folder with one directory for each finished step. A directory is
// written under another name and renamed when complete, so that what is there is
// whole, however the process ended.
type cache struct {
	root     string
	parallel int // steps that run at the same time
	progress func(Event)
}

func (c cache) dir(s step, key string) string {
	return filepath.Join(c.root, s.name+"-"+key[:12])
}

const unfinished = "tmp-"

// clean removes what killed builds left. The caller holds the cache's lock.
func (c cache) clean() error {
	left, err := filepath.Glob(filepath.Join(c.root, unfinished+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what an earlier build left: %w", err)
		}
	}
	return nil
}

// result of one step's build.
type result struct {
	index int
	err   error
}

// run brings the plan's last step into being and as few others as that takes,
// at most c.parallel at a time, in the plan's order where there is a choice. After
// the first failure nothing new starts, what runs is cancelled, and the error
// names the step.
func (c cache) run(ctx context.Context, steps []step) error {
	keys := keysOf(steps)
	need, err := c.look(ctx, steps, keys)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	dirs := make(map[string]string, len(steps))
	for _, s := range steps {
		dirs[s.name] = c.dir(s, keys[s.name])
	}
	var (
		results = make(chan result)
		started = make(map[int]bool)
		waits   = make(map[string]bool) // names of steps still to be finished
		running int
		failure error
	)
	for _, i := range need {
		waits[steps[i].name] = true
	}
	for {
		for _, i := range need {
			if ctx.Err() != nil || running >= c.parallel {
				break
			}
			if started[i] || anyOf(waits, steps[i].needs) {
				continue
			}
			started[i] = true
			running++
			go func() { results <- result{i, c.one(ctx, steps, i, dirs)} }()
		}
		if running == 0 {
			break
		}
		r := <-results
		running--
		if r.err == nil {
			delete(waits, steps[r.index].name)
			continue
		}
		if failure == nil {
			failure = fmt.Errorf("node image, step %s: %w", steps[r.index].title, r.err)
		}
		cancel()
	}
	if failure == nil && len(waits) > 0 {
		failure = context.Cause(ctx)
	}
	return failure
}

func anyOf(set map[string]bool, names []string) bool {
	for _, n := range names {
		if set[n] {
			return true
		}
	}
	return false
}

// look returns the places of the steps that must be built, in order, and tells
// about all the others.
func (c cache) look(ctx context.Context, steps []step, keys map[string]string) ([]int, error) {
	wanted := map[string]bool{steps[len(steps)-1].name: true}
	have := make([]bool, len(steps))
	for i := len(steps) - 1; i >= 0; i-- {
		s := steps[i]
		ok, err := c.has(ctx, s, keys[s.name])
		if err != nil {
			return nil, fmt.Errorf("node image, step %s: %w", s.title, err)
		}
		have[i] = ok
		if wanted[s.name] && !ok {
			for _, n := range s.needs {
				wanted[n] = true
			}
		}
	}
	var need []int
	for i, s := range steps {
		switch {
		case have[i]:
			c.progress(Event{Step: s.title, N: i + 1, Total: len(steps), State: Hit})
		case wanted[s.name]:
			need = append(need, i)
		default:
			c.progress(Event{Step: s.title, N: i + 1, Total: len(steps), State: Unused})
		}
	}
	return need, nil
}

func (c cache) has(ctx context.Context, s step, key string) (bool, error) {
	if s.have != nil {
		return s.have(ctx)
	}
	switch _, err := os.Stat(c.dir(s, key)); {
	case err == nil:
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	default:
		return false, err
	}
}

// one builds a step into a directory that appears only when it is whole.
func (c cache) one(ctx context.Context, steps []step, i int, dirs map[string]string) (err error) {
	s := steps[i]
	event := Event{Step: s.title, N: i + 1, Total: len(steps), State: Started}
	c.progress(event)
	begin := time.Now()
	defer func() {
		event.Elapsed, event.State, event.Err = time.Since(begin), Done, err
		if err != nil {
			event.State = Failed
		}
		c.progress(event)
	}()
	tmp, err := os.MkdirTemp(c.root, unfinished+s.name+"-")
	if err != nil {
		return err
	}
	defer func() {
		// After the rename there is nothing under this name.
		err = errors.Join(err, os.RemoveAll(tmp))
	}()
	out := filepath.Join(tmp, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	in := make(map[string]string, len(s.needs))
	for _, n := range s.needs {
		in[n] = dirs[n]
	}
	if err := s.build(ctx, out, in); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if s.have != nil {
		return nil
	}
	return os.Rename(out, dirs[s.name])
}
