// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
)

// A Job's app says in the end that it has ended, however it has; and one that is not heard has failed.
func TestWorkQuits(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/quit" {
			asked.Add(1)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	for _, tc := range []struct {
		args []string
		well bool
		asks int32
	}{
		{[]string{"--quit=" + server.URL + "/quit"}, true, 1},
		{[]string{"--quit=" + server.URL + "/quit", "--code=1"}, false, 1},
		{[]string{"--quit=" + server.URL + "/else"}, false, 0},
		{[]string{"--quit=localhost"}, false, 0},
		{nil, true, 0},
	} {
		asked.Store(0)
		c := command(make(chan os.Signal), io.Discard)
		c.SetArgs(append([]string{"work", "--for=1ms"}, tc.args...))
		if err := c.Execute(); (err == nil) != tc.well || asked.Load() != tc.asks {
			t.Errorf("%q: %v; it asked %d times, want %d", tc.args, err, asked.Load(), tc.asks)
		}
	}
}
