// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Times of the client. All are tunable, none is normative.
const (
	retryEvery = 200 * time.Millisecond
	clockEvery = 5 * time.Second
	// silence is how long nothing, not even a heartbeat, may come.
	silence = 5 * heartbeat
	// callTimeout bounds one call.
	callTimeout = 15 * time.Second
	// DefaultPatience is how long an agent may be out of reach before it
	// counts as lost.
	DefaultPatience = 60 * time.Second
)

// Client speaks to one agent.
type Client struct {
	// Patience is how long the agent may be out of reach in Follow before it
	// counts as lost; 0: DefaultPatience. It is set before Follow.
	Patience time.Duration

	addr string
	http *http.Client

	mu    sync.Mutex
	hello Hello
	clock timeline.Offset
	taken int64 // bytes of the spool that fn has seen
}

// DialFunc opens a connection to an agent.
type DialFunc func(ctx context.Context) (net.Conn, error)

// Dial waits until the agent at addr (host:port) answers, or ctx ends: then
// the error says what was seen last. dial may be nil: addr is dialled. An agent that
// refuses the credentials, or whose own are wrong, is an error at once.
func Dial(ctx context.Context, addr string, dial DialFunc, c Credentials) (*Client, error) {
	config, err := c.ClientTLS()
	if err != nil {
		return nil, err
	}
	if dial == nil {
		dial = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
		}
	}
	client := &Client{
		addr: addr,
		http: &http.Client{Transport: &http.Transport{
			DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			TLSClientConfig:       config,
			TLSHandshakeTimeout:   5 * time.Second,
			ResponseHeaderTimeout: callTimeout,
			IdleConnTimeout:       30 * time.Second,
		}},
	}
	var seen error
	for {
		_, err := client.Hello(ctx)
		if err == nil {
			return client, nil
		}
		if permanent(err) {
			client.Close()
			return nil, err
		}
		// The error of a call that ctx cut off says less than the one before.
		if seen == nil || ctx.Err() == nil {
			seen = err
		}
		if !pause(ctx, retryEvery) {
			client.Close()
			return nil, fmt.Errorf("agent %s did not answer in time (%w), last seen: %w", addr, context.Cause(ctx), seen)
		}
	}
}

// Close frees idle connections. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Hello asks the agent who it is, and sets the clock by its answer, where that is better than what is known.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	var h Hello
	before := timeline.Monotonic()
	if err := c.call(ctx, http.MethodGet, "/v1/hello", nil, &h); err != nil {
		return Hello{}, err
	}
	after := timeline.Monotonic()
	boot, err := timeline.BootID()
	if err != nil {
		return Hello{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hello = h
	c.clock = c.clock.Or(timeline.Compare(boot, h.BootID, before, h.Monotonic, after))
	return h, nil
}

// Offset is what has to be added to the agent's times to have them in
// timeline.Monotonic of this process, and its uncertainty to either side: 0
// and exact on the same boot, else half of the best round trip, and what clocks go apart in the time since.
func (c *Client) Offset() (offset, uncertainty time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clock.Add, c.clock.Err(timeline.Monotonic())
}

// Start starts streams, all or none.
func (c *Client) Start(ctx context.Context, streams ...load.Stream) error {
	return c.call(ctx, http.MethodPost, "/v1/streams", streams, nil)
}

// Stop ends the pacing of the named streams, of all when there are no names.
// It never cancels what is in flight, and does not wait for it.
func (c *Client) Stop(ctx context.Context, names ...flow.Stream) error {
	return c.call(ctx, http.MethodPost, "/v1/streams/stop", stopRequest{Names: names}, nil)
}

// Streams says how all streams stand.
func (c *Client) Streams(ctx context.Context) ([]Status, error) {
	var out []Status
	err := c.call(ctx, http.MethodGet, "/v1/streams", nil, &out)
	return out, err
}

// WaitIdle waits until every stream is done. When ctx ends first, the error
// says which are not.
func (c *Client) WaitIdle(ctx context.Context) error {
	var busy []string // when it was last known
	for {
		all, err := c.Streams(ctx)
		if err == nil {
			busy = nil
		}
		for _, s := range all {
			if !s.Done {
				busy = append(busy, s.Name)
			}
		}
		if err == nil && len(busy) == 0 {
			return nil
		}
		if err != nil && permanent(err) {
			return err
		}
		if !pause(ctx, retryEvery/2) {
			return errors.Join(fmt.Errorf("agent %s: %w while waiting for streams, still busy: %q", c.addr, context.Cause(ctx), busy), err)
		}
	}
}

// Pressure starts closed-loop load, until StopPressure; its summary comes as a record.
func (c *Client) Pressure(ctx context.Context, p Pressure) error {
	return c.call(ctx, http.MethodPost, "/v1/pressure", p, nil)
}

// StopPressure ends all closed-loop load, and returns when its summaries are
// recorded. why says in them why it ends before the streams do; empty: it does not.
func (c *Client) StopPressure(ctx context.Context, why string) error {
	return c.call(ctx, http.MethodPost, "/v1/pressure/stop", stopPressure{why}, nil)
}

// Signal has a witness signal a pod's processes, and returns their PIDs. An
// error that is fs.ErrNotExist says that there was none.
func (c *Client) Signal(ctx context.Context, s Signal) ([]int, error) {
	var out signalled
	err := c.call(ctx, http.MethodPost, "/v1/signal", s, &out)
	return out.PIDs, err
}

// Count has a witness count a pod's sockets to some peers. An error that is fs.ErrNotExist says
// that the pod has no process on the witness's node. Times are the witness's: see Offset.
func (c *Client) Count(ctx context.Context, q Census) (Counted, error) {
	var out Counted
	err := c.call(ctx, http.MethodPost, "/v1/census", q, &out)
	return out, err
}

// Dials has the agent dial an address. refused says why nobody accepts there, "" where somebody
// does; err is that nobody knows.
func (c *Client) Dials(ctx context.Context, addr string) (refused string, err error) {
	var out dialled
	err = c.call(ctx, http.MethodPost, "/v1/dial", Knock{Addr: addr}, &out)
	return out.Error, err
}

// Asks has the agent ask for a path once. refused says why nobody answered, "" where somebody did;
// err is that nobody knows.
func (c *Client) Asks(ctx context.Context, s load.Stream, path string) (refused string, err error) {
	var out dialled
	err = c.call(ctx, http.MethodPost, "/v1/ask", Question{Stream: s, Path: path}, &out)
	return out.Error, err
}

// Follow hands each record of the agent's history to fn, in its order, none
// twice and none left out, through broken connections. Times are the agent's:
// see Offset. It returns nil when ctx ends or the agent has ended its history,
// and an error when fn has one, when the history has a hole, or when the agent
// is lost. A later Follow goes on where the last one stopped.
func (c *Client) Follow(ctx context.Context, fn func(timeline.Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var clock sync.WaitGroup
	defer clock.Wait()
	defer cancel()
	clock.Go(func() { c.keepClock(ctx) })
	patience := c.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	heard := time.Now()
	for {
		before := c.Taken()
		ended, err := c.followOnce(ctx, fn, func() { heard = time.Now() })
		if ended || ctx.Err() != nil {
			return nil
		}
		var own *fnError
		if errors.As(err, &own) {
			return own.err
		}
		if permanent(err) {
			return fmt.Errorf("agent %s is lost after %d bytes: %w", c.addr, c.Taken(), err)
		}
		if away := time.Since(heard); away > patience && c.Taken() == before {
			return fmt.Errorf("agent %s is lost after %d bytes: out of reach for %v, last seen: %w", c.addr, c.Taken(), away.Round(time.Second), err)
		}
		if !pause(ctx, retryEvery) {
			return nil
		}
	}
}

// Taken is how many bytes of the history fn has seen.
func (c *Client) Taken() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// CatchUp waits until Follow, which runs elsewhere, has handed over all that
// the agent had recorded when CatchUp was called.
func (c *Client) CatchUp(ctx context.Context) error {
	h, err := c.Hello(ctx)
	if err != nil {
		return err
	}
	for c.Taken() < h.Spooled {
		if !pause(ctx, retryEvery/10) {
			return fmt.Errorf("agent %s: %w with %d of %d bytes of its history received", c.addr, context.Cause(ctx), c.Taken(), h.Spooled)
		}
	}
	return nil
}

// keepClock sets the clock again and again where it isn't ours.
func (c *Client) keepClock(ctx context.Context) {
	for {
		c.mu.Lock()
		same := c.clock.Same()
		c.mu.Unlock()
		if same || !pause(ctx, clockEvery) {
			return
		}
		// An agent out of reach is Follow's business; the old offset stays.
		_, _ = c.Hello(ctx)
	}
}

// fnError is an error of the caller's own function.
type fnError struct{ err error }

func (e *fnError) Error() string { return e.err.Error() }

// holeError says that the agent could not keep its history whole.
type holeError struct{ why string }

func (e *holeError) Error() string { return "the agent's history has a hole: " + e.why }

func (c *Client) followOnce(ctx context.Context, fn func(timeline.Record) error, heard func()) (ended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	url := fmt.Sprintf("https://%s/v1/records?offset=%d&spool=%s", ServerName, c.taken, c.hello.Spool)
	c.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, fmt.Errorf("agent %s: %w", c.addr, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, c.refused(resp)
	}
	heard()
	mute := time.AfterFunc(silence, func() { cancel(fmt.Errorf("not a word for %v", silence)) })
	defer mute.Stop()
	r := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			switch end := resp.Trailer.Get(endTrailer); end {
			case "":
			case endComplete:
				return true, nil
			default:
				return false, &holeError{end}
			}
		}
		if err != nil {
			// What came of the last line comes again.
			return false, fmt.Errorf("agent %s: %w", c.addr, errors.Join(err, context.Cause(ctx)))
		}
		heard()
		mute.Reset(silence)
		if len(line) == 1 {
			continue // a heartbeat
		}
		rec, err := timeline.ParseRecord(line)
		if err != nil {
			return false, &holeError{fmt.Sprintf("the line at byte %d is no record: %v", c.Taken(), err)}
		}
		if err := fn(rec); err != nil {
			return false, &fnError{err}
		}
		c.mu.Lock()
		c.taken += int64(len(line))
		c.mu.Unlock()
	}
}

// refusedError is an answer that is not 200.
type refusedError struct {
	code int
	text string
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.code, http.StatusText(e.code), e.text)
}

// Is makes a 404 an fs.ErrNotExist.
func (e *refusedError) Is(target error) bool {
	return target == fs.ErrNotExist && e.code == http.StatusNotFound
}

func (c *Client) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	return fmt.Errorf("agent %s: %w", c.addr, &refusedError{resp.StatusCode, strings.TrimSpace(string(text))})
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+ServerName+path, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("agent %s: %w", c.addr, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp)
	}
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	if err != nil {
		return fmt.Errorf("agent %s, reading the answer to %s: %w", c.addr, path, err)
	}
	return nil
}

// pause waits for d and says whether ctx still holds.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
