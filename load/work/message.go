// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// The gRPC service: POST CallPath + a method.
const (
	CallPath = "/lastcall.Work/"
	// UnaryMethod answers one message with its like.
	UnaryMethod = "Unary"
	// ServerMethod answers one message with Message.Count of them over
	// Message.Takes.
	ServerMethod = "Server"
	// BidiMethod answers each message with its like, until the client ends.
	BidiMethod = "Bidi"
	// CallType is the content type of a call, and how that of every call of
	// anybody's begins.
	CallType = "application/grpc"
	// HeaderGRPC is the trailer with the status that a call ends with, and
	// HeaderGRPCText the one that explains it.
	HeaderGRPC     = "Grpc-Status"
	HeaderGRPCText = "Grpc-Message"
)

// The gRPC statuses of this service and of who stands before it.
const (
	CallOK            = "0"
	CallUnimplemented = "12" // UNIMPLEMENTED
	CallUnavailable   = "14" // UNAVAILABLE
)

// PieceBytes is how much of Body a message carries, and MessageEvery the time
// between two messages of a stream, or of a WebSocket.
const (
	PieceBytes   = 256
	MessageEvery = 200 * time.Millisecond
)

// maxMessage bounds a message, in bytes: more than any of this service has.
const maxMessage = 64 << 10

// Message is what a call carries, either way. The n-th has the n-th piece of
// the Body that belongs to the request's ID, so that what was lost, doubled or
// exchanged on the way shows.
type Message struct {
	// Number counts the messages of one direction from 1.
	Number uint32
	// Count and Takes are what a request of ServerMethod asks for.
	Count uint32
	Takes time.Duration
	ID    string
	Piece []byte
}

// MessagesIn is how many messages a stream has that takes so long.
func MessagesIn(takes time.Duration) uint32 { return uint32(takes/MessageEvery) + 1 }

// Two headers come before what a message carries: gRPC's (a flag that says
// whether it is compressed, and its length, 4 bytes), and the message's own
// (number, count, milliseconds, 4 bytes each, and the ID's length, 2 bytes).
const (
	prefixBytes = 5
	headBytes   = 14
)

// Encode is the message with gRPC's prefix.
func (m Message) Encode() []byte {
	b := make([]byte, prefixBytes, prefixBytes+headBytes+len(m.ID)+len(m.Piece))
	b = binary.BigEndian.AppendUint32(b, m.Number)
	b = binary.BigEndian.AppendUint32(b, m.Count)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Takes.Milliseconds()))
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.ID)))
	b = append(b, m.ID...)
	b = append(b, m.Piece...)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-prefixBytes))
	return b
}

// ReadFrame reads one message of any service, with gRPC's prefix. It gives back
// io.EOF where the stream ends between two, and io.ErrUnexpectedEOF within one.
func ReadFrame(r io.Reader) ([]byte, error) {
	prefix := make([]byte, prefixBytes)
	if _, err := io.ReadFull(r, prefix); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(prefix[1:])
	if prefix[0] > 1 || n > maxMessage {
		return nil, fmt.Errorf("no message begins with %x: want a flag of 0 or 1 and a length of %d at most", prefix, maxMessage)
	}
	b := append(prefix, make([]byte, n)...)
	if _, err := io.ReadFull(r, b[prefixBytes:]); errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	} else if err != nil {
		return nil, err
	}
	return b, nil
}

// ReadMessage reads what Encode wrote. Its errors are those of ReadFrame, and
// one for a message that is none of this service's.
func ReadMessage(r io.Reader) (Message, error) {
	b, err := ReadFrame(r)
	if err != nil {
		return Message{}, err
	}
	if b[0] != 0 {
		return Message{}, errors.New("a compressed message, and no coding was agreed on")
	}
	if b = b[prefixBytes:]; len(b) < headBytes {
		return Message{}, fmt.Errorf("a message of %d bytes: want %d at least", len(b), headBytes)
	}
	id := int(binary.BigEndian.Uint16(b[12:]))
	if len(b) < headBytes+id {
		return Message{}, fmt.Errorf("a message of %d bytes, with an ID of %d in it", len(b), id)
	}
	return Message{
		Number: binary.BigEndian.Uint32(b), Count: binary.BigEndian.Uint32(b[4:]),
		Takes: time.Duration(binary.BigEndian.Uint32(b[8:])) * time.Millisecond,
		ID:    string(b[headBytes : headBytes+id]), Piece: b[headBytes+id:],
	}, nil
}

// SendMessages writes count messages to w, the first at once and the last after
// takes, and flushes each where w can (Flush()). It returns how many w took, and
// w's error or ctx's.
func SendMessages(ctx context.Context, w io.Writer, id string, count uint32, takes time.Duration) (uint32, error) {
	if bound := MessagesIn(MaxTakes); count > bound || takes > MaxTakes {
		return 0, fmt.Errorf("%d messages over %v: want %d over %v at most", count, takes, bound, MaxTakes)
	}
	body := Body(id, int64(count)*PieceBytes)
	start := time.Now()
	for n := uint32(1); n <= count; n++ {
		if n > 1 {
			// From the start, so that lateness doesn't add up.
			due := start.Add(takes * time.Duration(n-1) / time.Duration(count-1))
			if err := until(ctx, due); err != nil {
				return n - 1, err
			}
		}
		m := Message{Number: n, ID: id, Piece: make([]byte, PieceBytes)}
		// The body is as long as all pieces together.
		_, _ = io.ReadFull(body, m.Piece)
		if _, err := w.Write(m.Encode()); err != nil {
			return n - 1, err
		}
		if f, ok := w.(interface{ Flush() }); ok {
			f.Flush()
		}
	}
	return count, nil
}
