// SPDX-License-Identifier: Apache-2.0

// Package systems holds the systems that the suite knows, one file each. The
// reference's are read from here; a vendor's is given by its path.
package systems

import (
	_ "embed" // the files are part of the binary

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

//go:embed reference.yaml
var app []byte

//go:embed reference-gateway.yaml
var gateway []byte

// App is the reference application.
func App() (*system.System, error) { return system.Parse("reference.yaml", app) }

// Gateway is the reference gateway.
func Gateway() (*system.System, error) { return system.Parse("reference-gateway.yaml", gateway) }
