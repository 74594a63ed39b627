// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

const userAgent = "lastcall-probe"

// maxRest is how many bytes of an unexpected answer are read, for the
// connection's sake: a longer one costs the connection.
const maxRest = 64 << 10

// form is what the requests of a stream have in common.
type form struct {
	url    *url.URL
	method string
	bytes  int64         // of the body: the answer's, or the upload's; of a call messages
	paced  time.Duration // of an upload's pieces
	drips  bool          // each byte of an upload is a write of its own
	head   string        // the HTTP/1.1 request without its ID
	awaits bool          // the body waits for 100 Continue
	page   *load.Page    // nil: who answers speaks the words of load/work
	read   func(a *attempt, resp *http.Response, toEOF bool) error
}

// healthz is what a load balancer asks a health check node port for. No path
// of kube-proxy's has a meaning of its own.
const healthz = "/healthz"

// newPage is the form of a request for a page.
func newPage(s load.Stream, host string, p load.Page) (form, error) {
	u, err := url.ParseRequestURI(p.Path)
	if err != nil {
		return form{}, fmt.Errorf("page %q: %w", p.Path, err)
	}
	f := form{method: http.MethodGet, page: &p, read: readPage, url: &url.URL{Scheme: "http", Host: host, Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}}
	f.say(s, "")
	return f, nil
}

// newForm is that of an operation's requests.
func newForm(s load.Stream, host string, of client) form {
	f := form{method: http.MethodGet, bytes: work.SmallBytes, url: &url.URL{Scheme: "http", Host: host}, read: of.read}
	if of.ask != nil {
		of.ask(&f, s.Profile)
	}
	var more string
	if f.method == http.MethodPost {
		more = "Content-Length: " + strconv.FormatInt(f.bytes, 10) + "\r\n"
	}
	if f.awaits {
		more += "Expect: 100-continue\r\n"
	}
	f.say(s, more)
	return f
}

// askShort asks for a short answer at once: what takes time there is the connection, or the header.
func askShort(f *form, _ load.Profile) { f.job(work.Job{Bytes: f.bytes}) }

// askLater asks for one that is thought about.
func askLater(f *form, p load.Profile) { f.job(work.Job{Bytes: f.bytes, Later: p.Takes}) }

func askSlow(f *form, p load.Profile) {
	f.bytes = work.SlowBytes
	f.job(work.Job{Bytes: f.bytes, Takes: p.Takes, Chunked: p.Op == flow.Chunked})
}

func askPost(f *form, p load.Profile) {
	f.method = http.MethodPost
	f.job(work.Job{Later: p.Takes})
}

func askUpload(f *form, p load.Profile) {
	f.method, f.bytes, f.paced, f.awaits = http.MethodPost, work.SlowBytes, p.Takes, p.Op == flow.Continue
	f.job(work.Job{Takes: p.Takes})
}

func askDrip(f *form, p load.Profile) {
	askUpload(f, p)
	f.bytes, f.drips = work.DripBytes, true
}

// askNeighbour asks for what is to be there beside another, for a while.
func askNeighbour(f *form, _ load.Profile) {
	f.bytes = work.SlowBytes
	f.job(work.Job{Bytes: f.bytes, Takes: work.NeighbourTakes})
}

func askAheadPost(f *form, p load.Profile) {
	askUpload(f, p)
	f.bytes = work.AheadBytes
}

// askPath asks for a path that says all.
func askPath(path string) func(*form, load.Profile) {
	return func(f *form, _ load.Profile) { f.url.Path = path }
}

// askBytes asks for so much of a stream that has no header.
func askBytes(n int64) func(*form, load.Profile) {
	return func(f *form, _ load.Profile) { f.bytes = n }
}

// say composes the header of the request; more are fields besides.
func (f *form) say(s load.Stream, more string) {
	if s.Profile.Protocol.Secure() && !s.Profile.Protocol.Tunnels() {
		// The name that the certificate is for: who routes by either, or
		// compares them, must find one.
		_, port, _ := net.SplitHostPort(f.url.Host)
		f.url.Scheme, f.url.Host = "https", net.JoinHostPort(s.ServerName, port)
	}
	f.head = f.method + " " + f.url.RequestURI() + " HTTP/1.1\r\nHost: " + f.url.Host +
		"\r\nUser-Agent: " + userAgent + "\r\n" + more
}

// job asks the backend for an answer.
func (f *form) job(j work.Job) { f.url.Path, f.url.RawQuery = work.URLPath, j.Query() }

// attempt is one request on its way, and what is known of it.
type attempt struct {
	timeline.Sample
	stream *stream
	page   *form    // the stream's page that it asks for; nil: its form
	second *attempt // that was sent behind this one, before its answer
	other  bool     // it asks for what else the operation asks for: client.other
}

// budget bounds it, from its start.
func (a *attempt) budget() time.Duration {
	if a.Brief {
		return a.stream.Timeout
	}
	return a.stream.budget()
}

// form is how its request asks.
func (a *attempt) form() *form {
	if a.other {
		return &a.stream.other
	}
	if a.page != nil {
		return a.page
	}
	return &a.stream.form
}

// header is that of an HTTP/1.1 request.
func (a *attempt) header() []byte {
	b := make([]byte, 0, 512)
	b = append(b, a.form().head...)
	if !a.stream.client.nameless {
		b = append(b, work.HeaderID+": "...)
		b = append(b, a.ID...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// answersWithin is for how long beyond its own time an attempt is under way that was not answered, whoever gives it up.
const answersWithin = time.Second

// fail ends the attempt in its present phase. Where everything was killed, that
// is what it came to, in whichever way its connection noticed.
func (a *attempt) fail(o timeline.Outcome, err error) {
	a.End = timeline.Monotonic()
	switch {
	case a.stream.givenUp() && a.End-a.Start > a.stream.owed()+answersWithin:
		o, err = timeline.Timeout, load.ErrGivenUp
	case a.stream.ctx.Err() != nil:
		o = timeline.Cancelled
	}
	if o == timeline.Timeout && a.End-a.Start > a.budget()+a.stream.Tolerance {
		// The end of the budget came late as well: it was this process that
		// stood still.
		a.Saturated = true
	}
	a.Outcome = o
	a.Err = err.Error()
}

// answeredBy notes who answered, and from where that one saw the request come.
func (a *attempt) answeredBy(pod, peer string) {
	a.Server = pod
	own, _, _ := net.SplitHostPort(a.Local)
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		host = peer // it tells no port
	}
	if host != own {
		a.Via = host
	}
	a.Relayed = host != own || err == nil && peer != a.Local
}

// errShort is what a body says that ended with its connection before the
// length that had been asked for.
var errShort = fmt.Errorf("the connection ended within the body: %w", io.ErrUnexpectedEOF)

// read takes the answer's body and judges it. toEOF says that the body's end
// is that of the connection. An error is one of reading, and the attempt has
// no outcome yet, unless it is Status.
func (a *attempt) read(resp *http.Response, toEOF bool) error {
	a.Phase = timeline.PhaseBody
	a.Status = resp.StatusCode
	if a.form().page == nil {
		a.answeredBy(resp.Header.Get(work.HeaderPod), resp.Header.Get(work.HeaderPeer))
	}
	if good := a.form().good(); resp.StatusCode != good {
		a.fail(timeline.Status, errors.New(resp.Status))
		_, err := rest(resp)
		if err == nil {
			// Whatever it says, it came to its end.
			a.Phase = timeline.PhaseDone
		}
		return err
	}
	return a.form().read(a, resp, toEOF)
}

// judged ends the attempt by what was wrong with an answer, which whoever read it says, and why
// reading ended.
func (a *attempt) judged(wrong, err error) error {
	switch {
	case wrong != nil:
		// However it ended: what was wrong by then stays wrong.
		a.fail(timeline.Corrupt, errors.Join(wrong, err))
		return err
	case err != nil:
		return err
	default:
		a.Phase = timeline.PhaseDone
		a.Outcome = timeline.OK
		a.End = timeline.Monotonic()
	}
	return nil
}

// readBody takes the bytes that belong to the request's ID.
func readBody(a *attempt, resp *http.Response, toEOF bool) error {
	a.Want = a.form().bytes
	wrong, err := a.compare(resp.Body)
	switch {
	case wrong != nil || err != nil || a.Got == a.Want:
	case toEOF:
		err = errShort
	default:
		wrong = fmt.Errorf("%d bytes, want %d", a.Got, a.Want)
	}
	return a.judged(wrong, err)
}

// readReceipt takes what the backend says that it received.
func readReceipt(a *attempt, resp *http.Response, _ bool) error {
	a.Want = a.form().bytes
	return a.judged(a.acknowledged(resp.Body))
}

// readPage takes a page of anybody's: its length is the only promise that there is, and who reads
// the body holds it to that.
func readPage(a *attempt, resp *http.Response, _ bool) error {
	var err error
	a.Got, err = io.Copy(io.Discard, resp.Body)
	a.Want = max(0, resp.ContentLength)
	return a.judged(nil, err)
}

// readAnything takes a body that means nothing.
func readAnything(a *attempt, resp *http.Response, _ bool) error {
	var err error
	a.Got, err = rest(resp)
	return a.judged(nil, err)
}

// good is the status of a good answer.
func (f *form) good() int {
	if f.page != nil {
		return f.page.Status
	}
	return http.StatusOK
}

// rest reads a body of no interest to its end.
func rest(resp *http.Response) (int64, error) {
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxRest))
	if err == nil && n == maxRest {
		err = fmt.Errorf("%d bytes or more behind status %d", maxRest, resp.StatusCode)
	}
	return n, err
}

// buffers are for comparing a body with what it should be.
type buffers struct{ got, want [4096]byte }

var buffersPool = sync.Pool{New: func() any { return new(buffers) }}

// compare reads a body to its end, or as far as it can, and says how what came differs
// from what belongs to the ID: stronger than its hash, and cheaper.
func (a *attempt) compare(body io.Reader) (wrong, err error) {
	b := buffersPool.Get().(*buffers)
	defer buffersPool.Put(b)
	expected := work.Body(a.ID, a.Want)
	for {
		n, err := body.Read(b.got[:])
		if wrong == nil && n > 0 {
			m, _ := io.ReadFull(expected, b.want[:n])
			if m < n {
				wrong = fmt.Errorf("more than the %d bytes that were asked for", a.Want)
			} else if !bytes.Equal(b.got[:n], b.want[:n]) {
				wrong = fmt.Errorf("another body than the request ID's, after byte %d", a.Got)
			}
		}
		a.Got += int64(n)
		if errors.Is(err, io.EOF) {
			return wrong, nil
		}
		if err != nil {
			return wrong, err
		}
	}
}

// acknowledged reads what the backend says that it received.
func (a *attempt) acknowledged(body io.Reader) (wrong, err error) {
	text, err := io.ReadAll(io.LimitReader(body, maxRest))
	if err != nil {
		return nil, err
	}
	var up work.Uploaded
	if err := json.Unmarshal(text, &up); err != nil {
		return fmt.Errorf("the answer to an upload is no JSON: %w", err), nil
	}
	a.Got = up.Bytes
	if up.Bytes != a.Want {
		return fmt.Errorf("the backend received %d bytes, %d were sent", up.Bytes, a.Want), nil
	}
	if sum := work.Sum(a.ID, a.Want); up.SHA256 != sum {
		return fmt.Errorf("the backend received a body with SHA-256 %s, want %s", up.SHA256, sum), nil
	}
	return nil, nil
}
