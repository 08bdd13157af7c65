package lint

import (
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"iotax"
	"iotax/fio"
	"iotax/internal/rules"
)

// fileRules check the files and devices that a job uses, and other jobs that use them or run at the same time.
var fileRules = []rule{
	{Rule: rules.FilenameColon, job: filenameColon},
	{Rule: rules.DeviceOverwritten, job: deviceOverwritten},
	{Rule: rules.JobsCompete, file: jobsCompete, result: jointly},
	{Rule: rules.JobsOverwrite, job: jobsOverwrite},
}

var (
	scheme    = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)
	hostName  = regexp.MustCompile(`^(?:[A-Za-z0-9_.-]+@)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$`)
	driveName = regexp.MustCompile(`^[A-Za-z]$`)
)

func filenameColon(j *job, r *report) {
	for _, key := range []string{"filename", "directory"} {
		s, ok := j.get(key)
		parts := split(s.value)
		if !ok || len(parts) < 2 {
			continue
		}
		if what := oneName(parts); what != "" {
			r.at(j, s, "%s is a list of %d names (%s): fio splits it at its colons, and it looks like %s", key, len(parts), strings.Join(parts, " and "), what)
			r.hint(`write %s=%s for one name, and mount what is on a server first`, key, strings.Join(parts, `\:`))
		}
	}
}

// oneName describes why parts look like one name that contains colons. It returns "" if they may be a list.
func oneName(parts []string) string {
	for i, p := range parts[:len(parts)-1] {
		next := parts[i+1]
		_, notNumber := strconv.ParseUint(next, 10, 64)
		switch {
		case p == "" || next == "":
			return "an IPv6 address, or an empty name"
		case strings.HasPrefix(next, "//") && scheme.MatchString(p):
			return "a URL"
		case driveName.MatchString(p) && strings.HasPrefix(next, `\`):
			return "a path with a drive letter"
		case strings.HasPrefix(next, "/") && !strings.Contains(p, "/") && hostName.MatchString(p) && (net.ParseIP(p) != nil || i == 0):
			return "a path on a server"
		case notNumber == nil && !strings.HasPrefix(p, "/dev/"):
			return "a name with a port or a time in it"
		}
	}
	return ""
}

func deviceOverwritten(j *job, r *report) {
	if !j.writes() && !j.trims() || j.engine(r.facts) == "null" {
		return
	}
	s, _ := j.get("filename")
	for _, d := range j.devices() {
		verb := "the job writes to"
		if !j.writes() {
			verb = "the job discards blocks of"
		}
		if r.facts.Holds != nil {
			if held := r.facts.Holds(d); held != "" {
				r.as(iotax.Invalid, j, s, "%s %s, and it is in use: %s", verb, d, held)
				r.hint("name another device, or a file; take this one out of use yourself if what it holds may go")
				continue
			}
		}
		r.at(j, s, "%s %s: what it holds is lost", verb, d)
	}
}

// meant lists options that show that jobs run together, or below full speed, on purpose.
var meant = []string{"rate", "rate_iops", "rate_min", "thinktime", "flow", "startdelay", "wait_for", "exitall", "exit_what", "latency_target", "new_group"}

// beside lists engines that disturb, observe or synchronize other jobs instead of measuring storage.
var beside = []string{"cpuio", "exec", "net", "netsplice", "rdma", "e4defrag", "falloc", "ftruncate", "null"}

func jobsCompete(jobs []*job, r *report) {
	for len(jobs) > 0 {
		n := slices.IndexFunc(jobs, func(j *job) bool { return j.group != jobs[0].group })
		if n < 0 {
			n = len(jobs)
		}
		group := jobs[:n]
		jobs = jobs[n:]
		if slices.ContainsFunc(group, func(j *job) bool {
			return j.has(meant...) || j.mode() == "" || slices.Contains(beside, j.engine(r.facts)) || strings.HasPrefix(j.engine(r.facts), "librpma")
		}) {
			continue
		}
		// Skip jobs with verify: they test data, and another job may disturb them on purpose.
		group = slices.DeleteFunc(slices.Clone(group), func(j *job) bool { return j.verifies() })
		for i, j := range group {
			if i == 0 {
				continue
			}
			switch key := j.unlike(group[0]); key {
			case "":
			case "rw", "bs", "bsrange", "bssplit":
				r.at(j, j.head, "[%s] runs at the same time as [%s], and does something else (%s, %s)", j.name, group[0].name, j.doing(), group[0].doing())
			default:
				r.as(iotax.Info, j, j.head, "[%s] runs at the same time as [%s], and has another %s", j.name, group[0].name, key)
			}
		}
	}
}

// unlike returns the most important option whose meaning differs between two jobs. It returns "" if none differs.
func (j *job) unlike(o *job) string {
	a, b := j.normal(), o.normal()
	for _, key := range []string{"rw", "bs", "bsrange", "bssplit", "iodepth", "numjobs", "ioengine", "direct"} {
		if a[key] != b[key] {
			return key
		}
	}
	return ""
}

// normal returns the options in the form of fio.Normal, without the number after a mode, as in rw=read:8.
func (j *job) normal() map[string]string {
	var settings []fio.Setting
	for _, s := range j.set {
		settings = append(settings, fio.Setting{Key: s.key, Value: s.value, Bare: s.bare, KBBase: s.base})
	}
	out := fio.Normal(settings)
	out["rw"], _, _ = strings.Cut(out["rw"], ":")
	return out
}

func (j *job) doing() string {
	if s, ok := j.set["bs"]; ok {
		return "rw=" + j.mode() + " bs=" + s.value
	}
	return "rw=" + j.mode()
}

func jobsOverwrite(j *job, r *report) {
	clones, ok := j.number("numjobs", 1)
	s, named := j.get("filename")
	if !ok || clones < 2 || !named || !j.writes() || !j.onFiles(r.facts) || j.has("offset_increment", "zonemode") || len(j.files()) > 1 {
		return
	}
	switch {
	case j.has("verify") && (!j.has("do_verify") || j.on("do_verify")):
		r.at(j, s, "%d clones write to %s and verify it: each finds what another wrote", clones, s.value)
	case j.random():
		r.as(iotax.Info, j, s, "%d clones write to all of %s, so some blocks are written by several", clones, s.value)
	default:
		r.at(j, s, "%d clones write the same blocks of %s in the same order", clones, s.value)
	}
}
