// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestMessage(t *testing.T) {
	for _, m := range []Message{
		{},
		{Number: 1, Count: 16, Takes: 3 * time.Second, ID: "a-1"},
		{Number: 1<<32 - 1, ID: "a-1", Piece: bytes.Repeat([]byte{7}, PieceBytes)},
	} {
		two := append(m.Encode(), m.Encode()...)
		r := iotest.OneByteReader(bytes.NewReader(two))
		for range 2 {
			got, err := ReadMessage(r)
			if err != nil || got.Number != m.Number || got.Count != m.Count || got.Takes != m.Takes || got.ID != m.ID || !bytes.Equal(got.Piece, m.Piece) {
				t.Errorf("%+v, %v, want %+v", got, err, m)
			}
		}
		if _, err := ReadMessage(r); !errors.Is(err, io.EOF) {
			t.Errorf("between two: %v", err)
		}
	}
	whole := Message{Number: 1, ID: "a-1", Piece: []byte("piece")}.Encode()
	for n := 1; n < len(whole); n++ {
		if _, err := ReadMessage(bytes.NewReader(whole[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d: %v", n, err)
		}
	}
}

// The layout is a contract between agents of different builds.
func TestMessageIsStable(t *testing.T) {
	got := Message{Number: 2, Count: 3, Takes: 4 * time.Millisecond, ID: "id", Piece: []byte("p")}.Encode()
	want := []byte{0, 0, 0, 0, 17, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 2, 'i', 'd', 'p'}
	if !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNoMessage(t *testing.T) {
	for text, want := range map[string]string{
		"<html>no gRPC here":                           "no message begins with",
		"\x00\x7f\xff\xff\xff":                         "no message begins with",
		"\x01\x00\x00\x00\x01z":                        "compressed",
		"\x00\x00\x00\x00\x02hi":                       "14 at least",
		string(Message{}.Encode()[:5+12]) + "\x00\x09": "an ID of 9",
	} {
		if _, err := ReadMessage(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// flushed counts its flushes, and notes when it was written to.
type flushed struct {
	bytes.Buffer
	begun time.Time
	at    []time.Duration
}

func (f *flushed) Flush() { f.at = append(f.at, time.Since(f.begun)) }

func TestSendMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = time.Second
		w := &flushed{begun: time.Now()}
		n, err := SendMessages(t.Context(), w, "a-1", MessagesIn(takes), takes)
		if n != 6 || err != nil || len(w.at) != 6 || w.at[0] != 0 || w.at[5] != takes {
			t.Fatalf("%d messages at %v: %v", n, w.at, err)
		}
		var body bytes.Buffer
		for want := uint32(1); want <= n; want++ {
			m, err := ReadMessage(w)
			if err != nil || m.Number != want || m.ID != "a-1" {
				t.Errorf("%+v %v, want number %d", m, err, want)
			}
			body.Write(m.Piece)
		}
		if want, _ := io.ReadAll(Body("a-1", int64(n)*PieceBytes)); !bytes.Equal(body.Bytes(), want) {
			t.Error("the pieces don't make the body")
		}
		ctx, cancel := context.WithTimeout(t.Context(), takes/2)
		defer cancel()
		if n, err := SendMessages(ctx, w, "a-1", 6, takes); n != 3 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended after %d: %v", n, err)
		}
		if n, err := SendMessages(t.Context(), w, "a-1", 1<<31, takes); n != 0 || err == nil {
			t.Errorf("too many: %d %v", n, err)
		}
	})
}
