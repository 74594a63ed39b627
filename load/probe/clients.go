// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/http"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// client is how an operation is spoken. What is nil or zero is as in a short GET.
type client struct {
	// ask says what its requests ask for.
	ask func(f *form, p load.Profile)
	// read reads the body of an answer with a good status, and judges it: attempt.read.
	read func(a *attempt, resp *http.Response, toEOF bool) error
	// try makes the attempt over HTTP/1.1, where it does more than to send a header and to
	// read the answer.
	try func(c *h1, ctx context.Context, a *attempt) fate
	// feed begins the body of a request over HTTP/2.
	feed func(ctx context.Context, a *attempt, req *http.Request) (context.Context, *upload)
	// open makes of a connection what carries its attempts, where that is not HTTP.
	open func(s *stream, l *link) conn
	// talk carries a talk of load/work from its greeting on.
	talk func(c *talk, ctx context.Context, a *attempt) fate
	// alone makes an attempt without a connection.
	alone func(s *stream, ctx context.Context, a *attempt)
	// other is what else its requests ask for: behind the first of an attempt, or where every is
	// above 0 all but one in so many, which are brief. Only ask and read are used.
	other *client
	every int64
	// turns is how often an attempt takes Flow.Takes, one after the other; 0 is once.
	turns int
	// deferred: an attempt begins Flow.Takes behind its turn.
	deferred bool
	// vacant: where it asks for a connection nothing listens, and any answer is one.
	vacant bool
	// nameless: its requests carry no ID.
	nameless bool
}

// clients are those of all operations.
var clients = map[flow.Op]client{
	flow.Get:          {ask: askShort, read: readBody},
	flow.Slow:         {ask: askSlow, read: readBody},
	flow.Chunked:      {ask: askSlow, read: readBody},
	flow.Upload:       {ask: askUpload, read: readReceipt, try: (*h1).upload, feed: startUpload},
	flow.Post:         {ask: askPost, read: readReceipt, try: (*h1).upload, feed: startUpload},
	flow.Continue:     {ask: askUpload, read: readReceipt, try: (*h1).upload, feed: startUpload},
	flow.Unary:        {ask: askCall, read: readCall, feed: startCall},
	flow.ServerStream: {ask: askCall, read: readCall, feed: startCall},
	flow.Bidi:         {ask: askCall, read: readCall, feed: startCall},
	flow.Idle:         {ask: askShort, read: readBody},
	flow.WebSocket:    {ask: askPath(work.WebSocketPath), try: (*h1).webSocket},
	flow.HalfHeader:   {ask: askShort, read: readBody, try: (*h1).inHalves},
	flow.Belated:      {ask: askShort, read: readBody, try: (*h1).inHalves},
	flow.Deferred:     {ask: askShort, read: readBody, deferred: true},
	flow.Ahead:        {ask: askLater, read: readBody, try: (*h1).ahead, turns: 2},
	flow.AheadPost:    {ask: askLater, read: readBody, try: (*h1).ahead, turns: 2, other: &client{ask: askAheadPost, read: readReceipt}},
	flow.Abandoned:    {ask: askAbandoned, try: (*h1).abandoned},
	flow.Mixed:        {ask: askSlow, read: readBody, other: &client{ask: askShort, read: readBody}, every: flow.LongEvery},
	flow.Drip:         {ask: askDrip, read: readReceipt, try: (*h1).upload, other: &client{ask: askNeighbour, read: readBody}, every: flow.DripEvery},
	flow.Talk:         {ask: askBytes(work.SlowBytes), open: newTalk, talk: (*talk).echoed},
	flow.Hear:         {ask: askBytes(work.SlowBytes), open: newTalk, talk: (*talk).heard},
	flow.Mute:         {open: newMute},
	flow.Lookup:       {alone: (*stream).lookup},
	flow.Vacant:       {vacant: true, nameless: true},
	flow.Check:        {ask: askPath(healthz), read: readAnything, nameless: true},
	flow.Discover:     {ask: asksOf(discovery), read: readStatus, feed: startCall},
	flow.Certify:      {ask: asksOf(certificate), read: readStatus, feed: startCall},
}
