// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// An app with paths of its own is asked for them in turn, and judged by its status and by its
// body's end.
func TestPages(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.RequestURI())
		mu.Unlock()
		fmt.Fprint(w, "hello")
	})
	mux.HandleFunc("/new", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusGone) })
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		fmt.Fprint(w, "hello")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.Protocols = both
	srv.Start()
	defer srv.Close()
	addr := strings.TrimPrefix(srv.URL, "http://")
	for name, tc := range map[string]struct {
		pages []load.Page
		want  []timeline.Outcome
	}{
		"good answers":     {[]load.Page{{Path: "/a?b=c", Status: 200}, {Path: "/new", Status: 201}}, []timeline.Outcome{timeline.OK}},
		"another status":   {[]load.Page{{Path: "/new", Status: 200}}, []timeline.Outcome{timeline.Status}},
		"an error":         {[]load.Page{{Path: "/gone", Status: 200}}, []timeline.Outcome{timeline.Status}},
		"a body cut short": {[]load.Page{{Path: "/short", Status: 200}}, []timeline.Outcome{timeline.Truncated, timeline.StreamReset}},
	} {
		for _, protocol := range []flow.Protocol{flow.HTTP1, flow.H2C} {
			s := load.Stream{
				Name: flow.Named("a page"), Addr: addr, Timeout: time.Second, Tolerance: time.Second, Pages: tc.pages,
				Profile: load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: protocol, Conns: flow.New, Op: flow.Get}, Rate: 100},
			}
			got := take(t, s, 4)
			for _, one := range got {
				if !slices.Contains(tc.want, one.Outcome) || one.Server != "" || one.Contradiction() != "" {
					t.Errorf("%s over %s: %+v", name, protocol, one)
				}
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) == 0 || asked[0] != "/a?b=c" {
		t.Errorf("asked for %q", asked)
	}
}

// take runs a stream until so many of its attempts are over.
func take(t *testing.T, s load.Stream, n int) []timeline.Sample {
	t.Helper()
	out := make(chan timeline.Sample, 1000)
	h, err := Generator{Room: NewRoom(MaxInFlight)}.Start(t.Context(), s, func(r timeline.Record) {
		if r.Sample != nil {
			out <- *r.Sample
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []timeline.Sample
	for range n {
		got = append(got, <-out)
	}
	h.Stop()
	<-h.Done()
	return got
}

// A stream of pages that can't be asked for is refused.
func TestPagesRefused(t *testing.T) {
	good := load.Stream{
		Name: flow.Named("a page"), Addr: "127.0.0.1:80", Timeout: time.Second, Tolerance: time.Second, Pages: []load.Page{{Path: "/", Status: 200}},
		Profile: load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 1},
	}
	if _, err := check(good); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*load.Stream){
		"want a path":          func(s *load.Stream) { s.Pages = []load.Page{{Path: "hello", Status: 200}} },
		"with status 404":      func(s *load.Stream) { s.Pages = []load.Page{{Path: "/", Status: 404}} },
		`op "upload" of pages`: func(s *load.Stream) { s.Profile.Op, s.Profile.Takes = flow.Upload, time.Second },
	} {
		s := good
		change(&s)
		if _, err := check(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
