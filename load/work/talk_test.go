// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

const sha = "ad6a5d292bcaecc0cb0773b8e7708ae3cc60dfeb0b8797a1caad97e3cb63d303"

// readers read each of the three lines of a talk, and write it again.
var readers = map[string]func(io.ByteReader) (fmt.Stringer, error){
	"greeting": func(r io.ByteReader) (fmt.Stringer, error) { return ReadGreeting(r) },
	"request":  func(r io.ByteReader) (fmt.Stringer, error) { return ReadRequest(r) },
	"trailer":  func(r io.ByteReader) (fmt.Stringer, error) { return ReadTrailer(r) },
}

func TestTalkLines(t *testing.T) {
	for line, want := range map[string]struct {
		reader string
		err    error // nil: it is read; errLine: it is none
	}{
		"lastcall-talk/1 pod-1 serving 10.0.0.1\n": {"greeting", nil},
		"lastcall-talk/1 pod-1 draining fd00::1\n": {"greeting", nil},
		"lastcall-talk/1 pod-1 gone 10.0.0.1\n":    {"greeting", errLine},
		"lastcall-talk/1  serving 10.0.0.1\n":      {"greeting", errLine},
		"lastcall-talk/1 pod-1 serving\n":          {"greeting", errLine},
		"lastcall-talk/2 pod-1 serving 10.0.0.1\n": {"greeting", errLine},
		"SSH-2.0-OpenSSH_9.2 x y\r\n":              {"greeting", errLine},
		"":                                         {"greeting", io.EOF},
		"lastcall-talk/1 pod-1 serving 10.0.0.1":   {"greeting", io.ErrUnexpectedEOF},
		"a-1 0\n":                                  {"request", nil},
		"a-1 16384\n":                              {"request", nil},
		"a-1 16384 hear\n":                         {"request", nil},
		"a-1 16384 here\n":                         {"request", nil},
		"a-1 16384 hear hear\n":                    {"request", errLine},
		"a-1 +5\n":                                 {"request", errLine},
		"a-1 007\n":                                {"request", errLine},
		"a-1 -1\n":                                 {"request", errLine},
		fmt.Sprintf("a-1 %d\n", int64(MaxBytes)):   {"request", nil},
		fmt.Sprintf("a-1 %d\n", int64(MaxBytes)+1): {"request", errLine},
		"a\t1 1\n":                                 {"request", errLine},
		"é 1\n":                                    {"request", errLine},
		" 1\n":                                     {"request", errLine},
		"\n":                                       {"request", errLine},
		"a-1 1":                                    {"request", io.ErrUnexpectedEOF},
		strings.Repeat("a", maxTalkLine-3) + " 1\n":     {"request", nil},
		strings.Repeat("a", maxTalkLine-2) + " 1\n":     {"request", errLine},
		strings.Repeat("a", 10*maxTalkLine):             {"request", errLine},
		"16384 " + sha + "\n":                           {"trailer", nil},
		"x " + sha + "\n":                               {"trailer", errLine},
		"16384\n":                                       {"trailer", errLine},
		"16384 " + sha:                                  {"trailer", io.ErrUnexpectedEOF},
		"lastcall-talk/1 pod-1 serving and something\n": {"trailer", errLine},
	} {
		got, err := readers[want.reader](strings.NewReader(line))
		switch {
		case want.err == nil && (err != nil || got.String() != line):
			t.Errorf("%s %q: read as %q, %v", want.reader, line, got, err)
		case errors.Is(want.err, errLine) && (err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
			t.Errorf("%s %q: error %v, want one that says what is wrong", want.reader, line, err)
		case want.err != nil && !errors.Is(want.err, errLine) && !errors.Is(err, want.err):
			t.Errorf("%s %q: error %v, want %v", want.reader, line, err, want.err)
		}
	}
}

var errLine = errors.New("a line that is none")

// A line that is read is written again as it was, and no more is read than it.
func FuzzTalkLines(f *testing.F) {
	f.Add([]byte("lastcall-talk/1 pod-1 serving 10.0.0.1\nrest"))
	f.Add([]byte("a-1 16384\nrest"))
	f.Add([]byte("16384 " + sha + "\n"))
	f.Add([]byte("a-1 00\n"))
	f.Add([]byte(strings.Repeat("a ", maxTalkLine)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, read := range readers {
			in := strings.NewReader(string(data))
			got, err := read(in)
			taken := len(data) - in.Len()
			if taken > maxTalkLine {
				t.Errorf("%s: %d bytes were read for a line", name, taken)
			}
			if err == nil && got.String() != string(data[:taken]) {
				t.Errorf("%s: %q was read as %q", name, data[:taken], got)
			}
		}
	})
}
