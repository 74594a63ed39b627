// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"testing"
	"testing/iotest"
	"time"
)

func TestBodyIsTheSameInAnyPieces(t *testing.T) {
	whole, err := io.ReadAll(Body("a-1", 1000))
	if err != nil {
		t.Fatal(err)
	}
	byOne, err := io.ReadAll(iotest.OneByteReader(Body("a-1", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole, byOne) {
		t.Error("the body depends on how it is read")
	}
	sum := sha256.Sum256(whole)
	if got := Sum("a-1", 1000); got != hex.EncodeToString(sum[:]) {
		t.Errorf("Sum = %s, the body's hash is %x", got, sum)
	}
	if Sum("a-1", 1000) == Sum("a-2", 1000) {
		t.Error("two IDs have one body")
	}
}

// The bytes are a contract between agents of different builds.
func TestBodyIsStable(t *testing.T) {
	if got, want := Sum("golden", 256), "ad6a5d292bcaecc0cb0773b8e7708ae3cc60dfeb0b8797a1caad97e3cb63d303"; got != want {
		t.Errorf("Sum(golden, 256) = %s, want %s", got, want)
	}
}

func TestJob(t *testing.T) {
	for _, j := range []Job{
		{},
		{Bytes: SmallBytes},
		{Bytes: SlowBytes, Takes: 3 * time.Second},
		{Bytes: SlowBytes, Takes: 3 * time.Second, Chunked: true},
		{Later: 11 * time.Second},
	} {
		q, err := url.ParseQuery(j.Query())
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseJob(q)
		if err != nil || got != j {
			t.Errorf("ParseJob(%q) = %+v, %v, want %+v", j.Query(), got, err, j)
		}
	}
	for _, bad := range []string{"bytes=-1", "bytes=x", "takes=1s", "takes=99999999999", "later=soon", "chunked=yes"} {
		q, err := url.ParseQuery(bad)
		if err != nil {
			t.Fatal(err)
		}
		if j, err := ParseJob(q); err == nil {
			t.Errorf("ParseJob(%q) = %+v, want an error", bad, j)
		}
	}
}

// pieces counts writes between flushes.
type pieces struct {
	bytes.Buffer
	flushes int
}

func (p *pieces) Flush() { p.flushes++ }

func TestSend(t *testing.T) {
	for _, c := range []struct {
		n       int64
		takes   time.Duration
		flushes int
	}{
		{256, 0, 1},
		{SlowBytes, 250 * time.Millisecond, 3},
		{SlowBytes, 20 * time.Millisecond, 2},
		{2, 300 * time.Millisecond, 2},
		{0, 300 * time.Millisecond, 1},
	} {
		var p pieces
		start := time.Now()
		n, err := Send(t.Context(), &p, "x", c.n, c.takes)
		took := time.Since(start)
		if n != c.n || err != nil {
			t.Errorf("Send(%d) = %d, %v", c.n, n, err)
		}
		if p.flushes != c.flushes {
			t.Errorf("Send(%d, %v) flushed %d times, want %d", c.n, c.takes, p.flushes, c.flushes)
		}
		if c.n > 0 && took < c.takes {
			t.Errorf("Send(%d, %v) took %v", c.n, c.takes, took)
		}
		want, _ := io.ReadAll(Body("x", c.n))
		if !bytes.Equal(p.Bytes(), want) {
			t.Errorf("Send(%d) wrote something else than Body", c.n)
		}
	}
}

func TestSendStops(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	var p pieces
	n, err := Send(ctx, &p, "x", 1000, time.Hour)
	if !errors.Is(err, why) || n == 0 || n >= 1000 {
		t.Errorf("Send = %d, %v, want the first piece and %v", n, err, why)
	}
	if _, err := Send(t.Context(), broken{}, "x", 10, 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Send to a broken writer = %v", err)
	}
}

// written are the sizes of writes, by how often they came.
type written map[int]int

func (w written) Write(p []byte) (int, error) {
	w[len(p)]++
	return len(p), nil
}

// Each byte is a write of its own, and they take their time.
func TestDrip(t *testing.T) {
	w := written{}
	start := time.Now()
	n, err := Drip(t.Context(), w, "x", 1000, 2*PieceEvery)
	if took := time.Since(start); n != 1000 || err != nil || took < 2*PieceEvery {
		t.Errorf("Drip = %d, %v, in %v", n, err, took)
	}
	if len(w) != 1 || w[1] != 1000 {
		t.Errorf("writes by their sizes: %v", w)
	}
	if n, err := Drip(t.Context(), broken{}, "x", 10, 0); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Drip to a broken writer = %d, %v", n, err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
