// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// workshop makes plans whose steps count how often they were built.
type workshop struct {
	mu     sync.Mutex
	built  []string
	events []Event
}

func (w *workshop) step(name string, needs ...string) step {
	return step{name: name, title: name, needs: needs, build: func(_ context.Context, dir string, in map[string]string) error {
		w.mu.Lock()
		w.built = append(w.built, name)
		w.mu.Unlock()
		for _, n := range needs {
			if _, err := os.Stat(filepath.Join(in[n], n)); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(dir, name), nil, 0o644)
	}}
}

func (w *workshop) cache(root string) cache {
	return cache{root: root, parallel: 2, progress: func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	}}
}

func (w *workshop) states(state State) []string {
	var out []string
	for _, e := range w.events {
		if e.State == state {
			out = append(out, e.Step)
		}
	}
	slices.Sort(out)
	return out
}

func diamond(w *workshop) []step {
	return []step{w.step("a"), w.step("b"), w.step("c", "a", "b"), w.step("d", "c", "a")}
}

func wantNames(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	got = slices.Clone(got)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestRunBuildsOnce(t *testing.T) {
	root := t.TempDir()
	var first workshop
	if err := first.cache(root).run(t.Context(), diamond(&first)); err != nil {
		t.Fatal(err)
	}
	wantNames(t, "built", first.built, "a", "b", "c", "d")
	wantNames(t, "done", first.states(Done), "a", "b", "c", "d")

	var second workshop
	if err := second.cache(root).run(t.Context(), diamond(&second)); err != nil {
		t.Fatal(err)
	}
	wantNames(t, "built again", second.built)
	wantNames(t, "hits", second.states(Hit), "a", "b", "c", "d")
}

func TestRunBuildsOnlyWhatChanged(t *testing.T) {
	root := t.TempDir()
	var w workshop
	if err := w.cache(root).run(t.Context(), diamond(&w)); err != nil {
		t.Fatal(err)
	}
	var changed workshop
	steps := diamond(&changed)
	steps[1].inputs = []string{"new"}
	if err := changed.cache(root).run(t.Context(), steps); err != nil {
		t.Fatal(err)
	}
	wantNames(t, "built after b changed", changed.built, "b", "c", "d")
}

// What is missing but only led to something that is there is not built.
func TestRunLeavesOutWhatNobodyNeeds(t *testing.T) {
	root := t.TempDir()
	var w workshop
	c := w.cache(root)
	steps := diamond(&w)
	if err := c.run(t.Context(), steps); err != nil {
		t.Fatal(err)
	}
	keys := keysOf(steps)
	for _, i := range []int{1, 3} {
		if err := os.RemoveAll(c.dir(steps[i], keys[steps[i].name])); err != nil {
			t.Fatal(err)
		}
	}
	var again workshop
	if err := again.cache(root).run(t.Context(), diamond(&again)); err != nil {
		t.Fatal(err)
	}
	wantNames(t, "built", again.built, "d")
	wantNames(t, "not needed", again.states(Unused), "b")
}

func TestRunCancelledInTheMiddleGoesOnLater(t *testing.T) {
	root := t.TempDir()
	why := errors.New("somebody pressed Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	var w workshop
	steps := diamond(&w)
	steps[2].build = func(ctx context.Context, dir string, _ map[string]string) error {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
			return err
		}
		cancel(why)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if err := w.cache(root).run(ctx, steps); !errors.Is(err, why) || !strings.Contains(err.Error(), "step c") {
		t.Errorf("error %v does not say what was cancelled and why", err)
	}
	wantNames(t, "built before", w.built, "a", "b")
	left, err := filepath.Glob(filepath.Join(root, unfinished+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	var again workshop
	if err := again.cache(root).run(t.Context(), diamond(&again)); err != nil {
		t.Fatal(err)
	}
	wantNames(t, "built after", again.built, "c", "d")
}

// A step that ends well after the cancellation must not count: what it made may be
// cut short.
func TestRunCancelledStepDoesNotCount(t *testing.T) {
	root := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s := step{name: "a", title: "a", build: func(context.Context, string, map[string]string) error {
		cancel()
		return nil
	}}
	var w workshop
	if err := w.cache(root).run(ctx, []step{s}); !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
	if left, _ := os.ReadDir(root); len(left) > 0 {
		t.Errorf("kept %v", left)
	}
}

func TestRunFailureStopsWhatNeedsIt(t *testing.T) {
	root := t.TempDir()
	broken := errors.New("no space left")
	var w workshop
	steps := diamond(&w)
	steps[0].build = func(context.Context, string, map[string]string) error { return broken }
	err := w.cache(root).run(t.Context(), steps)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "step a") {
		t.Errorf("error: %v", err)
	}
	if slices.Contains(w.built, "c") || slices.Contains(w.built, "d") {
		t.Errorf("built %v although a failed", w.built)
	}
	if !slices.Contains(w.states(Failed), "a") {
		t.Errorf("no event says that a failed: %v", w.events)
	}
}

func TestRunSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		var order []string
		var mu sync.Mutex
		slow := func(name string) step {
			return step{name: name, title: name, build: func(ctx context.Context, _ string, _ map[string]string) error {
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				timer := time.NewTimer(time.Minute)
				<-timer.C
				running.Add(-1)
				return nil
			}}
		}
		var w workshop
		begin := time.Now()
		steps := []step{slow("a"), slow("b"), slow("c"), slow("d"), {name: "e", title: "e", needs: []string{"a", "b", "c", "d"},
			build: func(context.Context, string, map[string]string) error { return nil }}}
		if err := w.cache(t.TempDir()).run(t.Context(), steps); err != nil {
			t.Fatal(err)
		}
		if most.Load() != 2 || time.Since(begin) != 2*time.Minute {
			t.Errorf("%d at once, %s in all", most.Load(), time.Since(begin))
		}
		wantNames(t, "started first", order[:2], "a", "b")
	})
}

func TestCleanRemovesOnlyTheUnfinished(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{unfinished + "a-123/out", "a-0123456789ab"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := (cache{root: root}).clean(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 || left[0].Name() != "a-0123456789ab" {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestKeys(t *testing.T) {
	key := func(s ...step) string { return keysOf(s)[s[len(s)-1].name] }
	base := key(step{name: "a", inputs: []string{"x", "y"}}, step{name: "b", needs: []string{"a"}})
	for what, other := range map[string]string{
		"inputs joined":     key(step{name: "a", inputs: []string{"xy"}}, step{name: "b", needs: []string{"a"}}),
		"inputs in order":   key(step{name: "a", inputs: []string{"y", "x"}}, step{name: "b", needs: []string{"a"}}),
		"an input more":     key(step{name: "a", inputs: []string{"x", "y", ""}}, step{name: "b", needs: []string{"a"}}),
		"a need less":       key(step{name: "a", inputs: []string{"x", "y"}}, step{name: "b"}),
		"another name":      key(step{name: "a", inputs: []string{"x", "y"}}, step{name: "c", needs: []string{"a"}}),
		"need's name only":  key(step{name: "z", inputs: []string{"x", "y"}}, step{name: "b", needs: []string{"z"}}),
		"input of b itself": key(step{name: "a", inputs: []string{"x", "y"}}, step{name: "b", inputs: []string{"x"}, needs: []string{"a"}}),
	} {
		if other == base {
			t.Errorf("%s: same key", what)
		}
	}
	if again := key(step{name: "a", inputs: []string{"x", "y"}}, step{name: "b", needs: []string{"a"}}); again != base {
		t.Error("key is not stable")
	}
}

// Plans are lists in which everything comes after what it needs.
func TestPlanOrder(t *testing.T) {
	for _, v := range table {
		seen := map[string]bool{}
		for _, s := range plan(v, "amd64") {
			if seen[s.name] {
				t.Errorf("%s: two steps %s", v.Kubernetes, s.name)
			}
			for _, n := range s.needs {
				if !seen[n] {
					t.Errorf("%s: %s comes before %s, which it needs", v.Kubernetes, s.name, n)
				}
			}
			seen[s.name] = true
		}
	}
}

func TestEventString(t *testing.T) {
	for want, e := range map[string]Event{
		"[3/12] etcd 3.6.5: cache miss, building":       {Step: "etcd 3.6.5", N: 3, Total: 12, State: Started},
		"[3/12] etcd 3.6.5: done in 41s":                {Step: "etcd 3.6.5", N: 3, Total: 12, State: Done, Elapsed: 41 * time.Second},
		"[3/12] etcd 3.6.5: cache hit":                  {Step: "etcd 3.6.5", N: 3, Total: 12, State: Hit},
		"[3/12] etcd 3.6.5: failed after 1.5s: no disk": {Step: "etcd 3.6.5", N: 3, Total: 12, State: Failed, Elapsed: 1500 * time.Millisecond, Err: errors.New("no disk\nmore")},
		"waiting for another build to end":              {State: Waiting},
	} {
		if got := e.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
