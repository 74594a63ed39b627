// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lastcall-dev/lastcall/reports/picture"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
)

// TextFile is the report for a person, in the report's directory.
const TextFile = "report.txt"

// pictureFile is a scenario's timeline, beside its history.
const pictureFile = "timeline.png"

// Finish judges a recorded run and writes its report in all forms that derive
// from the histories: YAML, text and pictures. `lastcall report rejudge` is
// this and nothing else.
func Finish(dir string) (*v1alpha1.ConformanceReport, error) {
	j, run, err := readAll(dir)
	if err != nil {
		return nil, err
	}
	report := run.Report
	report.Suite = v1alpha1.ThisSuite()
	if err := j.fill(&report, run); err != nil {
		return nil, err
	}
	for i, r := range j.recs {
		if !r.recorded {
			continue
		}
		sc := &report.Scenarios[i]
		sc.Picture = sc.History + "/" + pictureFile
		if err := draw(filepath.Join(dir, sc.Picture), r, sc); err != nil {
			sc.Picture = ""
			sc.Notes = append(sc.Notes, err.Error())
		}
	}
	if _, err := yaml.WriteDir(dir, &report); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, TextFile))
	if err != nil {
		return nil, fmt.Errorf("the text of the report: %w", err)
	}
	if err := text.Write(f, &report, text.Options{Dir: dir}); err != nil {
		f.Close()
		return nil, err
	}
	return &report, f.Close()
}

func draw(path string, r recording, sc *v1alpha1.Scenario) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("the picture: %w", err)
	}
	if err := picture.WritePNG(f, r.scene.Timeline, sc); err != nil {
		f.Close()
		return fmt.Errorf("the picture: %w", err)
	}
	return f.Close()
}
