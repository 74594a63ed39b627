// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// methods are those of the gRPC calls. They are made by hand: a library of
// gRPC sends again, without a word, what it knows to be unprocessed.
var methods = map[flow.Op]string{
	flow.Unary:        work.UnaryMethod,
	flow.ServerStream: work.ServerMethod,
	flow.Bidi:         work.BidiMethod,
}

// errNoStatus is what a call says whose stream was ended as if it were whole.
// PROTOCOL-HTTP2, Responses: "Status must be sent in Trailers even if the status
// code is OK."
var errNoStatus = errors.New("the stream ended without a grpc-status")

func askCall(f *form, p load.Profile) {
	f.method, f.bytes = http.MethodPost, int64(work.MessagesIn(p.Takes))
	f.url.Path = work.CallPath + methods[p.Op]
}

// discovery is the method of Envoy's that discovery in deltas has.
const discovery = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// certificate is the method of Istio's by which a CA is asked for one.
const certificate = "/istio.v1.auth.IstioCertificateService/CreateCertificate"

// asksOf is a call of a method in which nothing is asked for.
func asksOf(method string) func(*form, load.Profile) {
	return func(f *form, _ load.Profile) { f.method, f.bytes, f.url.Path = http.MethodPost, 0, method }
}

// noFields is a message of gRPC's in which no field of its type has a value: not compressed, 0 bytes long.
var noFields = make([]byte, 5)

// startCall makes a gRPC call of req, and begins to send its messages.
func startCall(ctx context.Context, a *attempt, req *http.Request) (context.Context, *upload) {
	req.Header.Set("Content-Type", work.CallType)
	req.Header.Set("Te", "trailers")
	// What the client would wait for, of at most 8 digits, in milliseconds.
	req.Header.Set("Grpc-Timeout", strconv.FormatInt(a.budget().Milliseconds(), 10)+"m")
	count, takes := uint32(a.stream.form.bytes), a.stream.Profile.Takes
	return ctx, startBody(ctx, req, func(ctx context.Context, w io.Writer) error {
		switch a.stream.Profile.Op {
		case flow.Discover:
			return nil
		case flow.Certify:
			_, err := w.Write(noFields)
			return err
		case flow.Bidi:
			_, err := work.SendMessages(ctx, w, a.ID, count, takes)
			return err
		case flow.ServerStream:
			_, err := w.Write(work.Message{Number: 1, Count: count, Takes: takes, ID: a.ID}.Encode())
			return err
		default:
			_, err := work.SendMessages(ctx, w, a.ID, 1, 0)
			return err
		}
	})
}

// readStatus takes any answer to a gRPC call that says how the call ended.
func readStatus(a *attempt, resp *http.Response, _ bool) error {
	if _, err := rest(resp); err != nil {
		return err
	}
	a.Phase = timeline.PhaseDone
	switch status := statusOf(resp); status {
	case "":
		a.fail(timeline.Truncated, errNoStatus)
	case work.CallUnavailable:
		a.GRPC = status
		a.fail(timeline.Status, fmt.Errorf("grpc-status %s", status))
	default:
		a.Outcome = timeline.OK
		a.End = timeline.Monotonic()
	}
	return nil
}

// statusOf is the grpc-status that a call has ended with; "": none. An answer without messages may have it in its
// header: Trailers-Only.
func statusOf(resp *http.Response) string {
	return cmp.Or(resp.Trailer.Get(work.HeaderGRPC), resp.Header.Get(work.HeaderGRPC))
}

// readCall takes the answer to a gRPC call.
func readCall(a *attempt, resp *http.Response, _ bool) error {
	a.Want = a.stream.form.bytes
	wrong, err := a.replies(resp)
	if err != nil {
		if wrong != nil {
			a.fail(timeline.Corrupt, errors.Join(wrong, err))
		}
		return err
	}
	// To HTTP/2 it is whole, whatever it says.
	a.Phase = timeline.PhaseDone
	a.GRPC = statusOf(resp)
	switch {
	case a.GRPC == "":
		a.fail(timeline.Truncated, errNoStatus)
	case wrong != nil:
		a.fail(timeline.Corrupt, wrong)
	case a.GRPC != work.CallOK:
		a.fail(timeline.Status, fmt.Errorf("grpc-status %s: %s", a.GRPC, cmp.Or(resp.Trailer.Get(work.HeaderGRPCText), resp.Header.Get(work.HeaderGRPCText))))
	case a.Got < a.Want:
		a.fail(timeline.Corrupt, fmt.Errorf("grpc-status 0 behind %d of %d messages", a.Got, a.Want))
	default:
		a.Outcome = timeline.OK
		a.End = timeline.Monotonic()
	}
	return nil
}

// replies reads a call's messages to the end of the stream, and says how they
// differ from those that belong to the ID.
func (a *attempt) replies(resp *http.Response) (wrong, err error) {
	body := &upTo{Reader: resp.Body}
	expected := work.Body(a.ID, a.Want*work.PieceBytes)
	piece := make([]byte, work.PieceBytes)
	for {
		m, err := work.ReadMessage(body)
		switch {
		case err == nil:
		case errors.Is(body.err, io.EOF):
			// The stream's end, and not the connection's.
			if !errors.Is(err, io.EOF) && wrong == nil {
				wrong = fmt.Errorf("the stream ended within a message: %w", err)
			}
			return wrong, nil
		case body.err != nil:
			return wrong, body.err
		default:
			_, left := rest(resp)
			return cmp.Or(wrong, err), left
		}
		a.Got++
		if wrong != nil {
			continue
		}
		// What is behind the last one is too much, whatever it holds.
		_, _ = io.ReadFull(expected, piece)
		switch {
		case a.Got > a.Want:
			wrong = fmt.Errorf("more than the %d messages that were asked for", a.Want)
		case int64(m.Number) != a.Got:
			wrong = fmt.Errorf("message %d, where %d was due", m.Number, a.Got)
		case m.ID != a.ID:
			wrong = fmt.Errorf("message %d is of request %q", m.Number, m.ID)
		case !bytes.Equal(m.Piece, piece):
			wrong = fmt.Errorf("message %d has another piece than the request ID's", m.Number)
		}
	}
}

// upTo keeps the error that reading ended with.
type upTo struct {
	io.Reader
	err error
}

func (u *upTo) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	u.err = err
	return n, err
}
