// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// marks are what the runner says of whom a recording is about.
type marks struct {
	fronts   []mark // MarkFront: of is the role
	subjects []mark // MarkSubject: of is the container
	subject  Role   // MarkSubject: of what is no front
	proxies  string // MarkProxies: the owner of node proxies
	proxy    string // MarkProxies: their container; "": nobody said
	// proxiesCut is when these cut what is left; 0: nobody said.
	proxiesCut time.Duration
	owners     map[string]string // of pods, by UID, as far as the watch told them
}

// mark is what is said of the pods of one Deployment; "": of all that are ended.
type mark struct{ deployment, of string }

func marksOf(tl *timeline.Timeline) marks {
	m := marks{subject: RoleApp, owners: map[string]string{}}
	for _, e := range tl.Events {
		switch {
		case e.Kind == timeline.PodSeen:
			m.owners[e.Subject] = cmp.Or(e.Attrs["owner"], m.owners[e.Subject])
		case e.Kind != timeline.Marker:
		case e.Attrs["what"] == MarkFront:
			m.fronts = append(m.fronts, mark{e.Attrs["deployment"], cmp.Or(e.Attrs["role"], string(RoleGateway))})
		case e.Attrs["what"] == MarkProxies:
			m.proxies, m.proxy = e.Attrs["workload"], e.Attrs["container"]
			if cut, err := time.ParseDuration(e.Attrs["timeout"]); err == nil {
				m.proxiesCut = cut
			}
		case e.Attrs["what"] == MarkSubject:
			m.subject = cmp.Or(Role(e.Attrs["role"]), m.subject)
			m.subjects = append(m.subjects, mark{e.Attrs["deployment"], e.Attrs["container"]})
		}
	}
	return m
}

// role is that of an instance. What the fronts are not is what they stand before; where no
// watch told whose a pod is, and a front is a Deployment's, nobody knows.
func (m marks) role(uid string) Role {
	owner, unknown := m.owners[uid], false
	if m.proxies != "" && owner == m.proxies {
		return RoleProxies
	}
	for _, f := range m.fronts {
		if f.deployment == "" || OwnedBy(owner, f.deployment) {
			return Role(f.of)
		}
		unknown = unknown || owner == ""
	}
	if unknown {
		return ""
	}
	return m.subject
}

// aside says of the event of a container whether it is another one than the recording is
// about: a proxy's end is not that of what stands beside it.
func (m marks) aside(e timeline.Event) bool {
	container, others := e.Attrs["container"], false
	if container == "" {
		return false
	}
	owner := m.owners[e.Subject]
	if m.proxies != "" && owner == m.proxies {
		return m.proxy != "" && m.proxy != container
	}
	for _, s := range m.subjects {
		switch about := s.deployment == "" || owner == "" || OwnedBy(owner, s.deployment); {
		case !about || s.of == "":
		case s.of == container:
			return false
		default:
			others = true
		}
	}
	return others
}
