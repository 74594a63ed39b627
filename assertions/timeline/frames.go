// SPDX-License-Identifier: Apache-2.0

package timeline

// FrameKind names what a client saw on the wire of one connection.
type FrameKind string

// The kinds of frames, with the attributes that each carries. All are what came
// from the peer, when it came, but for FrameClose and FramePing.
const (
	// FrameGoAway: an HTTP/2 GOAWAY. Attrs: last (the last stream ID), code
	// (its name: NO_ERROR).
	FrameGoAway FrameKind = "goaway"
	// FrameReset: an HTTP/2 RST_STREAM. Attrs: id, code (its name).
	FrameReset FrameKind = "rst-stream"
	// FramePing: this client answers an HTTP/2 PING of the peer's. Attrs: answered (how
	// long after it had come).
	FramePing FrameKind = "ping"
	// FrameCloseNotify: a TLS close_notify.
	FrameCloseNotify FrameKind = "close-notify"
	// FrameCertificate: the certificate of a tunnel's peer, in a handshake that went well. Attrs: for (how long it was good
	// for then, as time.ParseDuration reads it).
	FrameCertificate FrameKind = "certificate"
	// FrameAlert: any other TLS alert. Attrs: alert.
	FrameAlert FrameKind = "alert"
	// FrameWSClose: a WebSocket close frame. Attrs: code (1005: it has none).
	FrameWSClose FrameKind = "ws.close"
	// FrameFIN: the peer ended its side of the TCP connection.
	FrameFIN FrameKind = "fin"
	// FrameRST: the peer reset the TCP connection.
	FrameRST FrameKind = "rst"
	// FrameClose: this client closed a connection that it had kept, or that it
	// had held idle, or cut a tunnel under what was in it. Attrs: why; of a tunnel that was cut
	// by (PeerByRST, PeerByFIN, PeerByCloseNotify).
	FrameClose FrameKind = "close"
)
