// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
)

// The files of a bench's keys.
const (
	caCertFile   = "ca.crt"
	caKeyFile    = "ca.key"
	tokenKeyFile = "tokens.pub"
)

func benchControllerCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "bench-controller", Short: "The control plane where there is no cluster: CA and discovery", Args: cobra.NoArgs}
	var cfg controller.Config
	var keys, objects, fault string
	f := c.Flags()
	f.StringVar(&cfg.Injector.Mesh, "mesh", "", "ID of the mesh: the value of the namespaces' label lastcall.dev/mesh")
	f.StringVar(&cfg.Namespace, "namespace", "", "its own namespace, which is part of the name in its certificate")
	f.StringVar(&keys, "keys", "", fmt.Sprintf("folder with %s and %s of the CA, and %s, by which it checks tokens", caCertFile, caKeyFile, tokenKeyFile))
	f.StringVar(&objects, "objects", "", "folder with the namespaces, pods, Services and EndpointSlices that there are, in YAML")
	f.StringVar(&fault, "fault", "", "break it on purpose")
	nodeProxy(f, &cfg.NodeProxy)
	drainTimes(f, &cfg.Drain)
	c.RunE = func(*cobra.Command, []string) error {
		if cfg.Injector.Mesh == "" || cfg.Namespace == "" || keys == "" || objects == "" {
			return usage("--mesh, --namespace, --keys and --objects are needed")
		}
		var err error
		if cfg.Fault, err = fixtures.Find(controller.Faults(), fault); err != nil {
			return usageError{err}
		}
		if cfg.Bench, err = benchOf(keys, objects); err != nil {
			return err
		}
		cfg.Log = log.New(stderr, "controller: ", log.LstdFlags|log.Lmicroseconds)
		one, err := controller.New(cfg)
		if err != nil {
			return usageError{err}
		}
		return component.Run(one, controller.ErrNeverStarted, signals, cfg.Log, func() { cfg.Log.Print("serves") })
	}
	return c
}

// benchOf reads a bench's keys.
func benchOf(keys, objects string) (*controller.Bench, error) {
	b := &controller.Bench{Objects: objects}
	var tokens []byte
	var errs []error
	for name, to := range map[string]*[]byte{caCertFile: &b.CA.Cert, caKeyFile: &b.CA.Key, tokenKeyFile: &tokens} {
		text, err := os.ReadFile(filepath.Join(keys, name))
		errs = append(errs, err)
		*to = text
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("the bench's keys: %w", err)
	}
	block, _ := pem.Decode(tokens)
	if block == nil {
		return nil, fmt.Errorf("%s: no key in PEM", tokenKeyFile)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tokenKeyFile, err)
	}
	var ok bool
	if b.TokenKey, ok = key.(ed25519.PublicKey); !ok {
		return nil, fmt.Errorf("%s: a %T, and none of Ed25519", tokenKeyFile, key)
	}
	return b, nil
}
