// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// tarball writes entries owned by root with a fixed time, so that equal inputs give
// equal bytes. Parents are written once, before what is in them. The first error
// sticks and comes out of close.
type tarball struct {
	w    *tar.Writer
	seen map[string]bool
	err  error
}

func newTarball(w io.Writer) *tarball {
	return &tarball{w: tar.NewWriter(w), seen: map[string]bool{".": true}}
}

// epoch is the time of all our entries; zero would be read as "no time" by some.
var epoch = time.Unix(1, 0)

func (t *tarball) entry(h tar.Header, body io.Reader) {
	if t.err != nil {
		return
	}
	h.Name = strings.TrimPrefix(filepath.Clean("/"+h.Name), "/")
	if parent := filepath.Dir(h.Name); !t.seen[parent] {
		t.directory(parent, 0o755)
	}
	if t.seen[h.Name] {
		t.err = fmt.Errorf("%s is written twice", h.Name)
		return
	}
	t.seen[h.Name] = true
	h.ModTime = epoch
	h.Format = tar.FormatPAX
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	if t.err = t.w.WriteHeader(&h); t.err != nil || body == nil {
		return
	}
	_, t.err = io.Copy(t.w, body)
}

func (t *tarball) directory(name string, mode int64) {
	t.entry(tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}, nil)
}

func (t *tarball) text(name string, mode int64, content string) {
	t.entry(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: int64(len(content))}, strings.NewReader(content))
}

func (t *tarball) link(name, target string) {
	t.entry(tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, nil)
}

// file copies one file of this machine; links are followed.
func (t *tarball) file(name string, mode int64, from string) {
	if t.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		t.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.err = err
		return
	}
	t.entry(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: mode, Size: info.Size()}, f)
}

// tree copies a directory of this machine under name; mode gives a regular file's
// mode from its path below the directory. What has been written already stays.
func (t *tarball) tree(name, from string, mode func(string) int64) {
	if t.err != nil {
		return
	}
	t.err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch to := filepath.Join(name, rel); {
		case t.seen[to]:
		case d.IsDir():
			t.directory(to, 0o755)
		case d.Type().IsRegular():
			t.file(to, mode(rel), path)
		default:
			return fmt.Errorf("%s is neither a file nor a directory", path)
		}
		return t.err
	})
}

// append copies all entries of another archive as they are.
func (t *tarball) append(r io.Reader) {
	in := tar.NewReader(r)
	for t.err == nil {
		h, err := in.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.err = err
			return
		}
		t.seen[strings.TrimPrefix(filepath.Clean("/"+h.Name), "/")] = true
		if t.err = t.w.WriteHeader(h); t.err == nil {
			_, t.err = io.Copy(t.w, in)
		}
	}
}

func (t *tarball) close() error {
	if t.err != nil {
		return t.err
	}
	return t.w.Close()
}

// component is one container image with one layer.
type component struct {
	reference  string // full name with tag, as the kubelet will ask for it
	entrypoint []string
	env        []string // besides PATH
	stopSignal string
	compressed bool                 // whether the layer is
	fill       func(*tarball) error // writes the layer
}

// imageConfig is the part of an OCI image configuration that we need.
type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       struct {
		Env        []string `json:"Env"`
		Entrypoint []string `json:"Entrypoint,omitempty"`
		StopSignal string   `json:"StopSignal,omitempty"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// archive writes the image in the form of `docker save` into path. The layer is put
// together in a file beside it.
func (c component) archive(path, arch string) (err error) {
	layer, err := os.CreateTemp(filepath.Dir(path), "layer-")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	level := gzip.NoCompression
	if c.compressed {
		level = gzip.BestSpeed
	}
	zip, err := gzip.NewWriterLevel(layer, level)
	if err != nil {
		return err
	}
	diff := sha256.New()
	content := newTarball(io.MultiWriter(zip, diff))
	if err := c.fill(content); err != nil {
		return fmt.Errorf("image %s: %w", c.reference, err)
	}
	if err := content.close(); err != nil {
		return fmt.Errorf("image %s: %w", c.reference, err)
	}
	if err := zip.Close(); err != nil {
		return err
	}

	var cfg imageConfig
	cfg.Created, cfg.Architecture, cfg.OS = epoch.UTC(), arch, "linux"
	cfg.Config.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, c.env...)
	cfg.Config.Entrypoint, cfg.Config.StopSignal = c.entrypoint, c.stopSignal
	cfg.RootFS.Type = "layers"
	cfg.RootFS.DiffIDs = []string{"sha256:" + hex.EncodeToString(diff.Sum(nil))}
	config, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	configName := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": []string{c.reference}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}

	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	t := newTarball(out)
	t.file("layer.tar", 0o644, layer.Name())
	t.text(configName, 0o644, string(config))
	t.text("manifest.json", 0o644, string(manifest))
	if err := t.close(); err != nil {
		return fmt.Errorf("image %s: %w", c.reference, err)
	}
	return out.Close()
}
