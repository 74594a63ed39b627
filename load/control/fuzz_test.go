// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// answering is a transport that has one answer, which ends as is said.
type answering struct {
	body []byte
	end  string
}

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(a.body)), Trailer: http.Header{endTrailer: {a.end}},
	}, nil
}

// Each line of an agent is a record that is handed on, a heartbeat, or an error,
// and what was handed on is not asked for again.
func FuzzFollow(f *testing.F) {
	const (
		sample = `{"sample":{"stream":"service/http1/new/get","id":"86ff0e77ca3cd4c5-0","conn":1,"nth":1,"addr":"127.0.0.1:45397","due":864998229,"start":865430947,"end":866821254,"outcome":"ok","phase":"done","status":200,"got":256,"want":256}}` + "\n"
		frame  = `{"frame":{"at":7770448470,"stream":"service/h2c/reused/get","conn":1,"kind":"goaway","attrs":{"code":"NO_ERROR","last":"2147483647"}}}` + "\n"
		entry  = `{"entry":{"at":869334629,"id":"3bd1521baec8d208-0","step":"begin","pod":"dac72799","method":"GET"}}` + "\n"
	)
	for _, text := range []string{
		"", "\n\n", sample + "\n" + frame + entry, sample + frame[:40], sample[:40] + "\n" + frame, "{}\n", "null\n",
		strings.TrimSpace(sample) + frame, `{"sample":{"stream":"s","id":"i","outcome":"ok"},"entry":{"id":"i","step":"done"}}` + "\n",
		`{"newer":{}}` + "\n",
	} {
		f.Add([]byte(text), endComplete)
		f.Add([]byte(text), "")
	}
	f.Add([]byte(sample), "writing the spool: no space left on device")
	f.Fuzz(func(t *testing.T, body []byte, end string) {
		c := &Client{addr: "agent", http: &http.Client{Transport: answering{body, end}}}
		records := 0
		ended, err := c.followOnce(t.Context(), func(r timeline.Record) error {
			records++
			if r == (timeline.Record{}) {
				t.Error("an empty record was handed on")
			}
			return nil
		}, func() {})
		lines, beats, taken := 0, 0, 0
		rest := body
		for records+beats > lines || bytes.HasPrefix(rest, []byte("\n")) {
			line, behind, ok := bytes.Cut(rest, []byte("\n"))
			if !ok {
				break
			}
			if len(line) == 0 {
				beats++
			} else {
				taken += len(line) + 1
			}
			lines, rest = lines+1, behind
		}
		if int(c.Taken()) != taken {
			t.Fatalf("%d records, %d bytes taken of %d", records, c.Taken(), taken)
		}
		whole := len(rest) == 0
		switch {
		case ended != (whole && end == endComplete):
			t.Errorf("ended: %v, %d bytes left, trailer %q, %v", ended, len(rest), end, err)
		case !ended && err == nil:
			t.Errorf("not ended, and no error: %d bytes left, trailer %q", len(rest), end)
		}
		var hole *holeError
		if bytes.Contains(rest, []byte("\n")) && !errors.As(err, &hole) {
			t.Errorf("a line is no record, and the error is %v", err)
		}
	})
}

type noStreams struct{}

func (noStreams) Start(_ context.Context, s load.Stream, _ func(timeline.Record)) (load.Handle, error) {
	if s.Addr == "" {
		return nil, errors.New("no address")
	}
	return atRest{}, nil
}

// atRest is a stream that is done.
type atRest struct{}

func (atRest) Stop() {}
func (atRest) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

type noPressure struct{}

func (noPressure) Press(context.Context, Pressure) (timeline.Event, error) {
	return timeline.Event{Kind: timeline.Pressure}, nil
}

type noSignals struct{}

func (noSignals) Signal(context.Context, Signal) ([]int, error) { return nil, nil }

// Whatever is asked of an agent, it answers, and nobody's mistake is its own: no
// status says so.
func FuzzRequests(f *testing.F) {
	paths := []string{"/v1/streams", "/v1/streams/stop", "/v1/pressure", "/v1/signal", "/v1/hello", "/v1/records", "/v1/other", "/v1/pressure/stop"}
	for i, body := range []string{
		`[{"name":"direct/http1/new/get","profile":{"path":"direct","protocol":"http1","conns":"new","op":"get","rate":10},"addr":"127.0.0.1:80","tolerance":20000000,"timeout":1000000000,"seed":1}]`,
		`{"names":["direct/http1/new/get"]}`,
		`{"name":"p","addr":"127.0.0.1:80","conns":100,"qps":1000,"atMostSeconds":5}`,
		`{"pod":"be0c7a38","container":"","signal":"TERM"}`,
		`{"why":"the first endpoint stopped serving"}`,
		`{}`, `[{"name":"a"},{"name":"a"}]`, `[null]`, `null`, `{"pod":"a","signal":"TERM"}{"pod":"b","signal":"KILL"}`, `{"conns":1e400}`,
	} {
		for p := range paths {
			f.Add(uint8(p), body, "offset=0&spool=")
			f.Add(uint8(p), body, "offset="+strings.Repeat("9", 4*i))
		}
	}
	spool, err := NewSpool(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = spool.Close() })
	spool.End() // or who follows it waits
	f.Fuzz(func(t *testing.T, path uint8, body, query string) {
		s := &Server{
			Role: "probe", Spool: spool, Generator: noStreams{}, Presser: noPressure{}, Signaller: noSignals{},
			Log: log.New(io.Discard, "", 0), ctx: t.Context(), streams: map[flow.Stream]*running{},
		}
		h := s.handler()
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
			r.URL = &url.URL{Path: paths[int(path)%len(paths)], RawQuery: query}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 500 || w.Code < 200 {
				t.Errorf("%s %s: %d: %s", method, r.URL, w.Code, w.Body)
			}
			if w.Code >= 400 && strings.TrimSpace(w.Body.String()) == "" {
				t.Errorf("%s %s: %d, and no reason", method, r.URL, w.Code)
			}
		}
		s.pressing.Wait()
	})
}
