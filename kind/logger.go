// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kind/pkg/log"
)

// logger turns what kind says into progress lines. kind shows no spinner with a
// logger that is not its own.
type logger struct {
	progress func(string)
}

var (
	_ log.Logger     = logger{}
	_ log.InfoLogger = logger{}
)

func (l logger) Warn(message string) {
	// Two warnings are about what we do on purpose: a network of our own, and
	// cgroup v1 on a host that has nothing else.
	for _, expected := range []string{"KIND_EXPERIMENTAL_DOCKER_NETWORK", "Here be dragons", "cgroup v1 is deprecated"} {
		if strings.Contains(message, expected) {
			return
		}
	}
	l.say(message)
}

func (l logger) Warnf(format string, args ...any)  { l.Warn(fmt.Sprintf(format, args...)) }
func (l logger) Error(message string)              { l.say(message) }
func (l logger) Errorf(format string, args ...any) { l.say(fmt.Sprintf(format, args...)) }
func (l logger) Info(message string)               { l.say(message) }
func (l logger) Infof(format string, args ...any)  { l.say(fmt.Sprintf(format, args...)) }
func (l logger) Enabled() bool                     { return true }

// V passes what is meant for users on, and drops what is for debugging kind.
func (l logger) V(level log.Level) log.InfoLogger {
	if level > 0 {
		return log.NoopInfoLogger{}
	}
	return l
}

// signs are what kind puts before a step that begins, has ended, has failed.
var signs = strings.NewReplacer("•", "", "✓", "done:", "✗", "failed:")

// say drops the pictures and the empty lines.
func (l logger) say(message string) {
	plain := strings.Map(func(r rune) rune {
		if r > 0x2000 && r != '…' {
			return -1
		}
		return r
	}, signs.Replace(message))
	plain = strings.Join(strings.Fields(plain), " ")
	if plain != "" {
		l.progress("kind: " + plain)
	}
}
