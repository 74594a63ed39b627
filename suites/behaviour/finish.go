// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

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
	report, _, err := finish(dir)
	return report, err
}

// Verdicts judges a recorded run as Finish does, and writes nothing.
func Verdicts(dir string) ([]v1alpha1.Behaviour, error) {
	j, _, err := readAll(dir)
	if err != nil {
		return nil, err
	}
	return j.verdicts(j.blind())
}

// Finish is the function of that name for what was recorded just now. What
// proved nothing is not kept for another run.
func (r *Recorder) Finish() (*v1alpha1.ConformanceReport, error) {
	report, j, err := finish(r.cfg.Dir)
	if err == nil {
		err = r.cfg.Cache.forget(j, report)
	}
	if err != nil {
		return nil, err
	}
	return report, nil
}

func finish(dir string) (*v1alpha1.ConformanceReport, *judgement, error) {
	j, run, err := readAll(dir)
	if err != nil {
		return nil, nil, err
	}
	report := run.Report
	report.Suite = v1alpha1.ThisSuite()
	if err := j.fill(&report, run); err != nil {
		return nil, nil, err
	}
	_ = eachOf(len(j.recs), runtime.GOMAXPROCS(0), func(i int) error {
		r := j.recs[i]
		if !r.recorded {
			return nil
		}
		sc := &report.Scenarios[i]
		sc.Picture = sc.History + "/" + pictureFile
		if err := draw(filepath.Join(dir, sc.Picture), r, sc, report.Settings.P.D()); err != nil {
			sc.Picture = ""
			sc.Notes = append(sc.Notes, err.Error())
		}
		return nil
	})
	if _, err := yaml.WriteDir(dir, &report); err != nil {
		return nil, nil, err
	}
	f, err := os.Create(filepath.Join(dir, TextFile))
	if err != nil {
		return nil, nil, fmt.Errorf("the text of the report: %w", err)
	}
	if err := text.Write(f, &report, text.Options{Dir: dir}); err != nil {
		f.Close()
		return nil, nil, err
	}
	return &report, j, f.Close()
}

func draw(path string, r recording, sc *v1alpha1.Scenario, p time.Duration) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("the picture: %w", err)
	}
	if err := picture.WritePNG(f, r.scene.Timeline, sc, p); err != nil {
		f.Close()
		return fmt.Errorf("the picture: %w", err)
	}
	return f.Close()
}
