// SPDX-License-Identifier: Apache-2.0

// Package systems holds the systems that the suite knows, one file each. The
// reference's are read from here; a vendor's is given by its path.
package systems

import (
	"embed"
	"fmt"

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

//go:embed reference*.yaml manifests/reference*.yaml
var files embed.FS

// Reference is the suite's own for a role.
func Reference(r system.Role) (*system.System, error) {
	row, ok := r.Row()
	if !ok {
		return nil, fmt.Errorf("there is no role %q", r)
	}
	name := row.Reference
	data, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	s, err := system.Parse(name, data)
	if err != nil {
		return nil, err
	}
	s.In(files)
	return s, nil
}
