// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestJobsEnd(t *testing.T) {
	const exit = 12 * time.Second
	// job is one with a sidecar, that comes to a state so long after its app's exit.
	job := func(s scene.Scene, by, wants, state string, after time.Duration) {
		name := by + wants
		uid := "uid-" + name
		s.Event(8*time.Second, timeline.PodSeen, uid, map[string]string{"owner": "Job/" + name})
		s.Event(8*time.Second, timeline.ProcExit, uid, map[string]string{"container": "rules"})
		s.Event(9*time.Second, timeline.PodContainer, uid, map[string]string{"container": "proxy", "state": "running"})
		s.Event(9*time.Second, timeline.PodContainer, uid, map[string]string{"container": "echo", "state": "running"})
		s.Event(exit, timeline.ProcExit, uid, map[string]string{"container": "echo"})
		s.Event(exit+after, timeline.Job, "uid-job-"+name, map[string]string{"wants": wants, "state": state, "owner": "Job/" + name, "container": "echo", "by": by})
	}
	all := func(good, bad, cron string, after time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			job(s, "", timeline.JobComplete, good, after)
			job(s, "", timeline.JobFailed, bad, time.Second)
			job(s, timeline.ByCronJob, timeline.JobComplete, cron, after)
		}
	}
	both := func(good, bad string, after time.Duration) func(scene.Scene) {
		return all(good, bad, timeline.JobComplete, after)
	}
	without := func(container string) func(scene.Scene) {
		return func(s scene.Scene) {
			both(timeline.JobComplete, timeline.JobFailed, time.Second)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["container"] == container && e.Kind != timeline.Job })
		}
	}
	check := JobsEnd()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "as their apps", Build: both(timeline.JobComplete, timeline.JobFailed, 2*time.Second), Want: spec.Pass},
		{Name: "late", Build: both(timeline.JobComplete, timeline.JobFailed, leaveWithin+time.Second), Want: spec.Fail},
		{Name: "one goes on", Build: both("", timeline.JobFailed, leaveWithin+time.Second), Want: spec.Fail},
		{Name: "one goes on, and the machine is starved when it is waited for no more", Build: func(s scene.Scene) {
			both("", timeline.JobFailed, 2*leaveWithin)(s)
			starved(s, exit+2*leaveWithin)
		}, Want: spec.Fail},
		{Name: "late, on a starved machine", Build: func(s scene.Scene) {
			both(timeline.JobComplete, timeline.JobFailed, leaveWithin+time.Second)(s)
			starved(s, exit+leaveWithin)
		}, Want: spec.Inconclusive},
		{Name: "one was not waited for", Build: both("", timeline.JobFailed, leaveWithin-time.Second), Want: spec.Inconclusive},
		{Name: "one fails that was to complete", Build: both(timeline.JobFailed, timeline.JobFailed, time.Second), Want: spec.Fail},
		{Name: "one completes that was to fail", Build: both(timeline.JobComplete, timeline.JobComplete, time.Second), Want: spec.Fail},
		{Name: "the CronJob's goes on", Build: all(timeline.JobComplete, timeline.JobFailed, "", leaveWithin+time.Second), Want: spec.Fail},
		{Name: "no CronJob", Build: func(s scene.Scene) {
			job(s, "", timeline.JobComplete, timeline.JobComplete, time.Second)
			job(s, "", timeline.JobFailed, timeline.JobFailed, time.Second)
		}, Want: spec.Inconclusive},
		{Name: "without a sidecar", Build: without("proxy"), Want: spec.Inconclusive},
		{Name: "nobody saw the app", Build: without("echo"), Want: spec.Inconclusive},
		{Name: "one alone", Build: func(s scene.Scene) { job(s, "", timeline.JobComplete, timeline.JobComplete, time.Second) }, Want: spec.Inconclusive},
	})
}
