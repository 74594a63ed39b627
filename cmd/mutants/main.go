// SPDX-License-Identifier: Apache-2.0

// Command mutants inverts conditions in Go files, one at a time, and says which of them no test
// notices:
//
//	go run ./cmd/mutants -n 40 -seed 24 ./assertions ./load/flow ./suites/behaviour
//
// A mutant is one condition of an if or a case, or one comparison in a return, inverted.
// Of each the tests of its package are run, and those of the packages of this module that import
// it, with -short; the files themselves stay as they are (go test -overlay). The same seed picks
// the same mutants of the same files.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	n := flag.Int("n", 40, "how many mutants")
	seed := flag.Uint64("seed", 1, "what picks them")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: go run ./cmd/mutants [-n 40] [-seed 1] PACKAGE|FILE...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *n, *seed, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

// mutant is one condition, inverted.
type mutant struct {
	file     string
	line     int
	from, to int // the condition's bytes
	was, is  string
}

// errSurvived: some mutants were not noticed.
var errSurvived = errors.New("some were not noticed")

func run(ctx context.Context, n int, seed uint64, args []string) error {
	imports, err := importers(ctx)
	if err != nil {
		return err
	}
	var all []mutant
	for _, arg := range args {
		files := []string{arg}
		if !strings.HasSuffix(arg, ".go") {
			if files, err = filepath.Glob(filepath.Join(arg, "*.go")); err != nil {
				return err
			}
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			some, err := mutantsOf(file)
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(n, len(all))]
	survived := 0
	for i, m := range all {
		begin := time.Now()
		noticed, err := m.noticed(ctx, imports)
		if err != nil {
			return err
		}
		word := "noticed "
		if !noticed {
			word, survived = "SURVIVED", survived+1
		}
		fmt.Printf("%2d/%d %s %s:%d  %s  (%s)\n", i+1, len(all), word, m.file, m.line, m.was, time.Since(begin).Round(time.Second))
	}
	fmt.Printf("noticed: %d of %d\n", len(all)-survived, len(all))
	if survived > 0 {
		return errSurvived
	}
	return nil
}

// mutantsOf are all of a file's.
func mutantsOf(file string) ([]mutant, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, 0)
	if err != nil {
		return nil, err
	}
	var out []mutant
	invert := func(e ast.Expr) {
		if e == nil {
			return
		}
		from, to := fset.Position(e.Pos()), fset.Position(e.End())
		was := string(src[from.Offset:to.Offset])
		out = append(out, mutant{file: file, line: from.Line, from: from.Offset, to: to.Offset, was: strings.Join(strings.Fields(was), " "), is: "!(" + was + ")"})
	}
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt:
			invert(x.Cond)
		case *ast.SwitchStmt:
			if x.Tag != nil {
				return true
			}
			for _, c := range x.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					invert(e)
				}
			}
		case *ast.ReturnStmt:
			for _, e := range x.Results {
				if b, ok := e.(*ast.BinaryExpr); ok && compares(b.Op) {
					invert(e)
				}
			}
		}
		return true
	})
	return out, nil
}

func compares(op token.Token) bool {
	return slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ, token.LAND, token.LOR}, op)
}

// importers are the packages that import a package, or test with it, by their folders.
func importers(ctx context.Context) (map[string][]string, error) {
	text, err := exec.CommandContext(ctx, "go", "list", "-f", `{{.ImportPath}} {{.Dir}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	dirs, of := map[string]string{}, map[string][]string{}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		words := strings.Fields(line)
		dirs[words[0]] = words[1]
	}
	for _, line := range lines {
		words := strings.Fields(line)
		for _, imported := range words[2:] {
			if dir := dirs[imported]; dir != "" && !slices.Contains(of[dir], words[1]) {
				of[dir] = append(of[dir], words[1])
			}
		}
	}
	return of, nil
}

// noticed says whether a test fails. That nothing builds is an error.
func (m mutant) noticed(ctx context.Context, importers map[string][]string) (bool, error) {
	src, err := os.ReadFile(m.file)
	if err != nil {
		return false, err
	}
	tmp, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	changed := filepath.Join(tmp, filepath.Base(m.file))
	if err := os.WriteFile(changed, slices.Concat(src[:m.from], []byte(m.is), src[m.to:]), 0o600); err != nil {
		return false, err
	}
	file, err := filepath.Abs(m.file)
	if err != nil {
		return false, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return false, err
	}
	over := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(over, overlay, 0o600); err != nil {
		return false, err
	}
	dir := filepath.Dir(file)
	// Its own first: mostly they are enough.
	for _, dirs := range [][]string{{dir}, importers[dir]} {
		if len(dirs) == 0 {
			continue
		}
		var said bytes.Buffer
		cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-short", "-overlay", over, "-timeout", "5m"}, dirs)...)
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			if bytes.Contains(said.Bytes(), []byte("[build failed]")) {
				return false, fmt.Errorf("%s:%d: inverted it does not build:\n%s", m.file, m.line, said.String())
			}
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
