// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Deviations tells what is wrong with the known deviations of a system: one that names no
// rule would excuse nothing, and nobody would hear of it. Its error is of type
// system.Mistakes, with the lines of the system's file.
func Deviations(sys *system.System) error {
	var wrong system.Mistakes
	for i, d := range sys.Deviations {
		at := fmt.Sprintf("deviations[%d].behaviour", i)
		switch b, ok := Find(d.Behaviour); {
		case !ok:
			wrong = append(wrong, sys.Mistake(at, "no behaviour is called %q: %s", d.Behaviour, meant(d.Behaviour)))
		case b.Level == spec.Control:
			wrong = append(wrong, sys.Mistake(at, "%s is a control of the suite, which no system can deviate from: remove it", d.Behaviour))
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// meant says what to write in the place of an ID that there is not.
func meant(id string) string {
	var ids []string
	for _, b := range Catalogue() {
		ids = append(ids, b.ID)
	}
	if near := system.Nearest(id, ids); near != "" {
		return "write " + near + ", or remove it"
	}
	return "use one that `lastcall list` shows, or remove it"
}
