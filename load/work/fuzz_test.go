// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"testing"
	"time"
)

// A message that is read is encoded as it was, no more is read than it, and a
// stream that ends within one never passes for one that ends between two.
func FuzzMessage(f *testing.F) {
	whole := Message{Number: 3, Count: 11, Takes: 2 * time.Second, ID: "3bd1521baec8d208-3", Piece: make([]byte, PieceBytes)}.Encode()
	f.Add(whole)
	f.Add(append(whole, whole...))
	f.Add(whole[:len(whole)-1])
	f.Add(whole[:prefixBytes-1])
	f.Add([]byte{0, 0, 0, 0, 0})                                               // of no bytes: no message of ours
	f.Add([]byte{1, 0, 0, 0, 1, 'x'})                                          // compressed
	f.Add([]byte{2, 0, 0, 0, 0})                                               // a flag that is none
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff})                                   // of 4 GiB
	f.Add([]byte{0, 0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0}) // an ID of more than it has
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for r.Len() > 0 {
			rest := data[len(data)-r.Len():]
			frame, err := ReadFrame(bytes.NewReader(rest))
			m, merr := ReadMessage(r)
			taken := len(rest) - r.Len()
			switch {
			case err == nil && !bytes.Equal(frame, rest[:len(frame)]):
				t.Fatalf("%x was read as frame %x", rest, frame)
			case err == nil && taken != len(frame):
				t.Fatalf("a frame of %d bytes, %d were taken", len(frame), taken)
			case err != nil && (merr == nil || merr.Error() != err.Error()):
				t.Fatalf("the frame: %v, the message: %v", err, merr)
			case errors.Is(merr, io.EOF) && taken > 0:
				t.Fatalf("%x: an end between two messages, after %d bytes", rest, taken)
			case merr == nil && !bytes.Equal(m.Encode(), frame):
				t.Fatalf("%x was read as %x", frame, m.Encode())
			case taken == 0:
				t.Fatalf("%x: nothing was taken: %v", rest, merr)
			}
			if err != nil {
				return
			}
		}
	})
}

// A job that is read is within its bounds, and is read again as it was.
func FuzzParseJob(f *testing.F) {
	for _, q := range []string{"", "takes=0&bytes=256", "takes=2000&bytes=16384&chunked=1", "bytes=-1", "bytes=67108865", "takes=600001",
		"chunked=2", "bytes=1&bytes=2", "bytes=%31", "takes=+5", "takes=9223372036854775807"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		j, err := ParseJob(q)
		if err != nil {
			if j != (Job{}) {
				t.Errorf("%q: %v, and a job: %+v", query, err, j)
			}
			return
		}
		if j.Bytes < 0 || j.Bytes > MaxBytes || j.Takes < 0 || j.Takes > MaxTakes {
			t.Errorf("%q: a job out of bounds: %+v", query, j)
		}
		again, err := url.ParseQuery(j.Query())
		if err != nil {
			t.Fatal(err)
		}
		if k, err := ParseJob(again); err != nil || k != j {
			t.Errorf("%q: %+v was written and read as %+v, %v", query, j, k, err)
		}
	})
}
