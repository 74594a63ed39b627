// SPDX-License-Identifier: Apache-2.0

package timeline

// The files of a history, in a scenario's directory. While it is recorded
// they are plain JSON lines; when the scenario ends they are compressed and
// carry CompressedSuffix. Readers take either.
const (
	SamplesFile      = "samples.jsonl"
	EventsFile       = "events.jsonl"
	FramesFile       = "frames.jsonl"
	LedgerFile       = "ledger.jsonl"
	CompressedSuffix = ".zst"
)
