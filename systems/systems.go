// SPDX-License-Identifier: Apache-2.0

// Package systems holds the systems that the suite knows, one file each. The
// reference's are read from here; a vendor's is given by its path.
package systems

import (
	"embed"

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

//go:embed reference.yaml reference-gateway.yaml manifests/reference-gateway.yaml
var files embed.FS

// App is the reference application.
func App() (*system.System, error) { return parse("reference.yaml") }

// Gateway is the reference gateway.
func Gateway() (*system.System, error) { return parse("reference-gateway.yaml") }

func parse(name string) (*system.System, error) {
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
