// SPDX-License-Identifier: Apache-2.0

// Command hello is a web server as people write them in Go: package net/http, nothing of this
// suite's, ended by Shutdown at SIGTERM. It stands for any app (systems/hello.yaml).
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// patience is how long what is in flight may take when it is told to end.
const patience = 20 * time.Second

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: hello ADDRESS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		stop()
		os.Exit(1)
	}
}

// serve answers at an address until ctx ends, and then what is in flight.
func serve(ctx context.Context, address string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	mux.HandleFunc("/slow", slow)
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	srv := &http.Server{Addr: address, Handler: mux, Protocols: both, ReadHeaderTimeout: time.Minute}
	over := make(chan error, 1)
	go func() {
		<-ctx.Done()
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		over <- srv.Shutdown(rest)
	}()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-over
}

// slow answers after so many seconds as the query's s says.
func slow(w http.ResponseWriter, r *http.Request) {
	s, err := strconv.ParseFloat(r.URL.Query().Get("s"), 64)
	if err != nil || s < 0 || s > 60 {
		http.Error(w, "s is seconds, from 0 to 60", http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(time.Duration(s * float64(time.Second))):
		fmt.Fprintln(w, "that took a while")
	case <-r.Context().Done():
	}
}
