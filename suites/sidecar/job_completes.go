// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// KEP-753, proposal: "Sidecar containers will not block Pod completion - if all regular containers
// complete, sidecar containers will be terminated."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.job-completes",
	Title: "A Job ends when its app has, as its app has",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "KEP-753", Section: "proposal", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/753-sidecar-containers#proposal",
			Quote: "Sidecar containers will not block Pod completion - if all regular containers complete, sidecar containers will be terminated.",
		},
		{
			Doc: "project", Section: "sidecars",
			Quote: "A Job has ended thirty seconds after its app: complete where that ended well, and failed where it failed.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "A Job is over when each of its containers is. A sidecar that nobody tells to go keeps it for good: what waits for the Job waits, and a CronJob that forbids two at a time never runs again.",
	Causes: "A sidecar that is a plain container: the pod of a Job gets no SIGTERM when its app has ended. A sidecar that exits with an error when it is told to go, as a plain container.",
	Fix:    "Make it a native sidecar (an init container with restartPolicy: Always): the kubelet ends it when the app has ended, and its exit code does not count. A plain one needs a call by the app's wrapper, or a process namespace that the two share.",

	Topology:   behaviour.BesideNative,
	Disrupt:    behaviour.RunJobs,
	Traffic:    atLength[:1],
	Checks:     []assertions.Check{JobsEnd()},
	BrokenBy:   []spec.Fault{sidecar.ForgetsJob},
	Resolution: 100 * time.Millisecond,
})

// JobsEnd judges that each Job ends soon after its app, and as that did.
func JobsEnd() assertions.Check {
	const why = "a Job ends once"
	well := assertions.Floor{Name: "Jobs with a sidecar whose app ended well", N: 1, Reason: why}
	badly := assertions.Floor{Name: "Jobs with a sidecar whose app failed", N: 1, Reason: why}
	cron := assertions.Floor{Name: "Jobs of a CronJob, with a sidecar, whose app ended well", N: 1, Reason: why}
	return assertions.Check{
		Name:     fmt.Sprintf("Jobs, %s after their app's exit", leaveWithin),
		Expected: "each has ended: complete where its app ended well, and failed where that failed",
		Floors:   []assertions.Floor{well, badly, cron},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			completed, failed, ofCron := 0, 0, 0
			longest := time.Duration(0)
			for _, e := range c.Timeline.EventsOf(timeline.Job, "") {
				pod := jobPod(c, e)
				tally.Span(cmp.Or(pod.exit.At, e.At), e.At)
				wants, state := e.Attrs["wants"], e.Attrs["state"]
				took, end := e.At-pod.exit.At, pod.exit.At+leaveWithin
				switch {
				case pod.exit.At == 0:
					tally.Doubt("nobody saw the app of the Job %s exit", e.Name)
					continue
				case state == "" && took <= leaveWithin:
					tally.Doubt("the Job %s was waited for %s only after its app's exit", e.Name, took.Round(time.Millisecond))
					continue
				case state == "":
					tally.Late(c, end, e.Name, "", "the Job goes on %s after its app's exit", took.Round(time.Millisecond))
				case state != wants:
					tally.Against(e.At, e.Name, "", "the Job is %s, and by its app's end it was to be %s", state, wants)
				case took-e.Err-pod.exit.Err > leaveWithin:
					tally.Late(c, end, e.Name, "", "the Job is %s, %s after its app's exit", state, took.Round(time.Millisecond))
				default:
					longest = max(longest, took)
				}
				switch {
				case !pod.sidecar:
				case wants == timeline.JobFailed:
					failed++
				case e.Attrs["by"] == timeline.ByCronJob:
					ofCron++
				default:
					completed++
				}
			}
			tally.Count(well, completed)
			tally.Count(badly, failed)
			tally.Count(cron, ofCron)
			return tally.Conclude(
				fmt.Sprintf("%s complete, %d of them of a CronJob, and %s failed, as their apps had ended, %s after these at most",
					assertions.Plural(completed+ofCron, "Job was", "Jobs were"), ofCron, assertions.Plural(failed, "was", "were"), longest.Round(time.Millisecond)),
				fmt.Sprintf("%s did not end as its app had, or not within %s of it", assertions.Plural(tally.Culprits(), "Job", "Jobs"), leaveWithin))
		},
	}
}

// ofJob is what a recording tells of a Job's pod.
type ofJob struct {
	exit    timeline.Event // the app's; At is 0 where nobody saw it
	sidecar bool           // another container ran when the app ended
}

// jobPod is the pod of a Job.
func jobPod(c assertions.Case, job timeline.Event) ofJob {
	var out ofJob
	var own []timeline.Event // what is told of the pod's containers
	for _, seen := range c.Timeline.EventsOf(timeline.PodSeen, "") {
		if seen.Attrs["owner"] == job.Attrs["owner"] {
			own = append(c.Timeline.EventsOf(timeline.PodContainer, seen.Subject), c.Timeline.EventsOf(timeline.ProcExit, seen.Subject)...)
		}
	}
	app := job.Attrs["container"]
	for _, e := range own {
		ended := e.Kind == timeline.ProcExit || e.Attrs["state"] == "terminated"
		if e.Attrs["container"] == app && ended && (out.exit.At == 0 || e.At < out.exit.At) {
			out.exit = e
		}
	}
	ran := map[string]bool{}
	for _, e := range own {
		ran[e.Attrs["container"]] = ran[e.Attrs["container"]] || e.Attrs["state"] == "running"
	}
	for _, e := range own {
		if e.Kind == timeline.ProcExit && e.At < out.exit.At {
			delete(ran, e.Attrs["container"])
		}
	}
	for name, did := range ran {
		out.sidecar = out.sidecar || did && name != app
	}
	return out
}
