// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// peer is a client that is measured.
type peer struct {
	name, version string
	// path is its program, and needs says how to get one; empty where it is there.
	path, needs string
	// golang: it is written in Go.
	golang bool
	// closed: it sends as fast as answers come, and has no rate.
	closed bool
	args   func(t task, out string) []string
	// input is what it reads.
	input func(t task) string
	// read is how it says what became of its requests: stdout, or what is in out.
	read func(p *peer, stdout []byte, out string) (result, error)
}

// peers are all clients, those that are not installed too. tools is where the
// programs stand that were built from Go modules.
func peers(ctx context.Context, self, tools string) []*peer {
	own := func(name string) func(task, string) []string {
		return func(t task, _ string) []string {
			arg, _ := json.Marshal(t) // of numbers and text: nothing to fail
			return []string{name, string(arg)}
		}
	}
	installed := func(p *peer, pkg string) *peer {
		path, err := exec.LookPath(p.name)
		if p.path = path; err != nil {
			p.needs = "apt-get install " + pkg
		}
		return p
	}
	built := func(p *peer) *peer {
		p.golang, p.path = true, filepath.Join(tools, p.name)
		if _, err := os.Stat(p.path); err != nil {
			p.needs = "make bench-peers builds it, at the version in .tools/peers.mod"
		}
		return p
	}
	all := []*peer{
		{name: "probe", path: self, golang: true, args: own("probe"), read: readOwn, version: "this commit"},
		{name: "fortio", path: self, golang: true, args: own("fortio"), read: readOwn, version: moduleVersion("fortio.org/fortio")},
		built(&peer{name: "hey", args: heyArgs, read: readHey}),
		built(&peer{name: "vegeta", args: vegetaArgs, read: readVegeta, input: func(t task) string { return "GET " + t.url() + "\n" }}),
		installed(&peer{name: "wrk", closed: true, args: wrkArgs, read: readWrk}, "wrk"),
		installed(&peer{name: "h2load", args: h2loadArgs, read: readH2load}, "nghttp2-client"),
	}
	for _, p := range all {
		if p.version == "" && p.needs == "" {
			p.version = askVersion(ctx, p)
		}
	}
	return all
}

// moduleVersion is that of a module that this program is built with.
func moduleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// askVersion is what a program says: go version -m, or --version.
func askVersion(ctx context.Context, p *peer) string {
	if p.golang {
		out, _ := exec.CommandContext(ctx, "go", "version", "-m", p.path).Output()
		if m := regexp.MustCompile(`(?m)^\s+mod\s+\S+\s+(\S+)`).FindSubmatch(out); m != nil {
			return string(m[1])
		}
		return "unknown"
	}
	// wrk says it with its usage, and ends with 1.
	out, _ := exec.CommandContext(ctx, p.path, "--version").CombinedOutput()
	words := strings.Fields(strings.SplitN(string(out), "\n", 2)[0])
	if len(words) > 1 && words[0] == "wrk" {
		return words[1]
	}
	return strings.TrimPrefix(strings.Join(words, " "), p.name+" ")
}

func perConn(t task) string {
	return strconv.FormatFloat(t.Rate/float64(t.Conns), 'f', -1, 64)
}

func whole(d time.Duration) string { return fmt.Sprintf("%ds", int((d+time.Second-1)/time.Second)) }

func heyArgs(t task, _ string) []string {
	args := []string{"-c", strconv.Itoa(t.Conns), "-disable-compression"}
	switch {
	case t.Hold:
		args = append(args, "-n", strconv.Itoa(t.Conns), "-t", "0")
	default:
		args = append(args, "-z", t.Lasts.String(), "-q", perConn(t), "-t", "10")
	}
	if t.New {
		args = append(args, "-disable-keepalive")
	}
	return append(args, t.url())
}

var (
	heyStatus = regexp.MustCompile(`(?m)^\s+\[(\d+)\]\s+(\d+) responses`)
	heyError  = regexp.MustCompile(`(?m)^\s+\[(\d+)\]\s+\S`)
)

func readHey(_ *peer, stdout []byte, _ string) (result, error) {
	var r result
	said, errs, _ := bytes.Cut(stdout, []byte("Error distribution:"))
	for _, m := range heyStatus.FindAllSubmatch(said, -1) {
		n, _ := strconv.Atoi(string(m[2]))
		r.Requests += n
		if string(m[1]) != "200" {
			r.Failed += n
		}
	}
	for _, m := range heyError.FindAllSubmatch(errs, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		r.Requests += n
		r.Failed += n
	}
	if r.Requests == 0 {
		return r, fmt.Errorf("hey tells of no request: %q", stdout)
	}
	return r, nil
}

func vegetaArgs(t task, out string) []string {
	args := []string{
		"attack", "-rate", fmt.Sprintf("%d/s", int(t.Rate)), "-duration", t.Lasts.String(),
		"-workers", strconv.Itoa(t.Conns), "-http2=false", "-timeout", "10s", "-output", out,
	}
	switch {
	case t.Hold:
		args = append(args, "-max-workers", strconv.Itoa(t.Conns), "-timeout", "1h")
	case t.New:
		args = append(args, "-keepalive=false")
	}
	return args
}

func readVegeta(p *peer, _ []byte, out string) (result, error) {
	stdout, err := exec.CommandContext(context.Background(), p.path, "report", "-type=json", out).Output()
	if err != nil {
		return result{}, fmt.Errorf("vegeta report: %w", err)
	}
	var said struct {
		Requests int            `json:"requests"`
		Codes    map[string]int `json:"status_codes"`
	}
	if err := json.Unmarshal(stdout, &said); err != nil {
		return result{}, fmt.Errorf("vegeta report: %w", err)
	}
	return result{Requests: said.Requests, Failed: said.Requests - said.Codes["200"]}, nil
}

func wrkArgs(t task, _ string) []string {
	args := []string{"-t1", "-c", strconv.Itoa(t.Conns), "-d", whole(t.Lasts), "--timeout", "10s"}
	switch {
	case t.Hold:
		args = append(args, "--timeout", "1h")
	case t.New:
		args = append(args, "-H", "Connection: close")
	}
	return append(args, t.url())
}

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in`)
	wrkErrors   = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkStatus   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

func readWrk(_ *peer, stdout []byte, _ string) (result, error) {
	m := wrkRequests.FindSubmatch(stdout)
	if m == nil {
		return result{}, fmt.Errorf("wrk tells of no requests: %q", stdout)
	}
	var r result
	r.Requests, _ = strconv.Atoi(string(m[1]))
	for _, of := range []*regexp.Regexp{wrkErrors, wrkStatus} {
		if m := of.FindSubmatch(stdout); m != nil {
			for _, s := range m[1:] {
				n, _ := strconv.Atoi(string(s))
				r.Failed += n
			}
		}
	}
	// An answer with another status is counted, and an error is none.
	r.Requests += r.Failed
	return r, nil
}

func h2loadArgs(t task, _ string) []string {
	args := []string{"--h1", "-t", "1", "-c", strconv.Itoa(t.Conns)}
	switch {
	case t.Hold:
		args = append(args, "-D", whole(t.Lasts))
	case t.New:
		// It connects anew for ever where it has a time, and has no rate then.
		args = append(args, "-H", "Connection: close", "-n", strconv.Itoa(int(t.Rate*t.Lasts.Seconds())))
	default:
		args = append(args, "-D", whole(t.Lasts), "--rps", perConn(t))
	}
	return append(args, t.url())
}

var h2loadSaid = regexp.MustCompile(`requests: (\d+) total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout`)

func readH2load(_ *peer, stdout []byte, _ string) (result, error) {
	m := h2loadSaid.FindSubmatch(stdout)
	if m == nil {
		return result{}, fmt.Errorf("h2load tells of no requests: %q", stdout)
	}
	var n [7]int
	for i := range n {
		n[i], _ = strconv.Atoi(string(m[i+1]))
	}
	// Errored are among the failed.
	return result{Requests: n[0], Failed: n[4]}, nil
}

func readOwn(_ *peer, stdout []byte, _ string) (result, error) {
	var r result
	if err := json.Unmarshal(stdout, &r); err != nil {
		return r, fmt.Errorf("what a client says of itself: %w", errors.Join(err, fmt.Errorf("%q", stdout)))
	}
	return r, nil
}
