// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A talk is the protocol of an opaque stream: what a proxy that understands
// nothing of it has to carry.
//
//	server: lastcall-talk/1 POD PHASE PEER\n    at once: it speaks first
//	client: ID BYTES\n                          and then Body(ID, BYTES)
//	server:                                     each of these bytes, as it comes
//	client: FIN                                 which ends its half only
//	server: COUNT SHA256\n, FIN                 what it has read up to that FIN
//
// So a stream that is whole at both ends was byte-exact in both directions,
// and its half-close passed both ways.
//
// A third word in the client's line asks for another talk. A client that only wants to be
// heard says "ID BYTES hear\n". Then the server ends its half at once, and what it has read
// up to the client's FIN only its ledger says.
const talkVersion = "lastcall-talk/1"

// maxTalkLine bounds a line of a talk, its end included, in bytes.
const maxTalkLine = 256

// Greeting is a server's first line.
type Greeting struct {
	// Pod is the UID of the pod that speaks, Phase is Serving or Draining, and Peer
	// where it sees the stream come from, as HeaderPeer has it.
	Pod, Phase, Peer string
}

// String is the line, with its end.
func (g Greeting) String() string {
	return talkVersion + " " + g.Pod + " " + g.Phase + " " + g.Peer + "\n"
}

// Request is a client's first line.
type Request struct {
	// ID is the request's, which the ledger repeats, and Bytes how many of
	// Body(ID, Bytes) follow.
	ID    string
	Bytes int64
	// Word is which talk: Hear, or "" for the one that comes back.
	Word string
}

// Hear is the word of a talk whose server is to end its half at once, and to hear the rest.
const Hear = "hear"

// String is the line, with its end.
func (r Request) String() string {
	if r.Word != "" {
		return fmt.Sprintf("%s %d %s\n", r.ID, r.Bytes, r.Word)
	}
	return fmt.Sprintf("%s %d\n", r.ID, r.Bytes)
}

// Trailer is a server's last line: the bytes that it has read, and their
// SHA-256 in hex.
type Trailer Uploaded

// String is the line, with its end.
func (t Trailer) String() string { return fmt.Sprintf("%d %s\n", t.Bytes, t.SHA256) }

// ReadGreeting reads what String wrote. Its error is io.EOF where the stream
// ended before a byte, and io.ErrUnexpectedEOF where it ended in the line.
func ReadGreeting(r io.ByteReader) (Greeting, error) {
	w, err := readWords(r, 4, 4)
	if err != nil {
		return Greeting{}, fmt.Errorf("the greeting: %w", err)
	}
	g := Greeting{Pod: w[1], Phase: w[2], Peer: w[3]}
	switch {
	case w[0] != talkVersion:
		return Greeting{}, fmt.Errorf("the greeting is of protocol %q, want %s", w[0], talkVersion)
	case g.Phase != Serving && g.Phase != Draining:
		return Greeting{}, fmt.Errorf("the greeting: phase %q: want %s or %s", g.Phase, Serving, Draining)
	}
	return g, nil
}

// ReadRequest reads what String wrote, with the errors of ReadGreeting.
func ReadRequest(r io.ByteReader) (Request, error) {
	w, err := readWords(r, 2, 3)
	if err != nil {
		return Request{}, fmt.Errorf("the request: %w", err)
	}
	n, err := readCount(w[1])
	if err != nil {
		return Request{}, fmt.Errorf("the request: %w", err)
	}
	req := Request{ID: w[0], Bytes: n}
	if len(w) == 3 {
		req.Word = w[2]
	}
	return req, nil
}

// ReadTrailer reads what String wrote, with the errors of ReadGreeting.
func ReadTrailer(r io.ByteReader) (Trailer, error) {
	w, err := readWords(r, 2, 2)
	if err != nil {
		return Trailer{}, fmt.Errorf("the trailer: %w", err)
	}
	n, err := readCount(w[0])
	if err != nil {
		return Trailer{}, fmt.Errorf("the trailer: %w", err)
	}
	return Trailer{Bytes: n, SHA256: w[1]}, nil
}

// readWords reads a line of so many words with one space between them.
func readWords(r io.ByteReader, least, most int) ([]string, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	words := strings.Split(line, " ")
	if len(words) < least || len(words) > most {
		return nil, fmt.Errorf("%q: want %d to %d words with a space between them", line, least, most)
	}
	for _, w := range words {
		if w == "" || strings.ContainsFunc(w, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return nil, fmt.Errorf("%q: want words of visible ASCII", line)
		}
	}
	return words, nil
}

// readLine reads to the end of a line, which it leaves out.
func readLine(r io.ByteReader) (string, error) {
	line := make([]byte, 0, maxTalkLine)
	for {
		b, err := r.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && len(line) > 0:
			return "", fmt.Errorf("it ended after %q: %w", line, io.ErrUnexpectedEOF)
		case err != nil:
			return "", err
		case b == '\n':
			return string(line), nil
		case len(line) == maxTalkLine-1:
			return "", fmt.Errorf("%d bytes and no end of the line, which begins with %q", maxTalkLine, line[:32])
		}
		line = append(line, b)
	}
}

// readCount reads a number of bytes, in the one form that it is written in.
func readCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > MaxBytes || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%q bytes: want a number from 0 to %d", s, MaxBytes)
	}
	return n, nil
}
