package fiojob

import (
	"fmt"
	"slices"
	"strings"

	"iotax/fio"
	"iotax/internal/plan"
)

// A fio job must stay in its target, but fio accepts job files that write files anywhere, run commands or load
// libraries. iotax refuses such options before it starts fio for the first time. The lists cover fio 3.33 to 3.42.
// iotax also refuses unknown options, because they may have the same effects.

// A bar is the reason why iotax refuses an option or an engine, with a hint.
type bar struct{ why, hint string }

var (
	runsCommand = bar{"it would run a command of its own", "run the command before iotax, or measure it as a workload: command"}
	writesFile  = bar{"it would write to a file outside the target", "remove it"}
	readsFile   = bar{"it would read a file outside the target", "remove it"}
	replays     = bar{"replaying a log is not supported", "remove it"}
	whole       = bar{"it would change the machine for all that runs there", "set it before iotax, and remove it here"}
)

// barred lists the options that reach beyond the target, and those with which iotax could not measure anything.
var barred = map[string]bar{
	"write_iolog": writesFile,

	"read_iolog":             replays,
	"replay_redirect":        replays,
	"merge_blktrace_file":    replays,
	"merge_blktrace_scalars": replays,
	"merge_blktrace_iters":   replays,

	"exec_prerun":  runsCommand,
	"exec_postrun": runsCommand,

	"verify_state_load": readsFile,
	"dp_scheme":         readsFile,

	"ioscheduler":     whole,
	"cgroup":          whole,
	"cgroup_weight":   whole,
	"cgroup_nodelete": whole,

	"profile":     {"it would run other jobs than these", "remove it"},
	"opendir":     {decided["opendir"], "remove it"},
	"fill_device": {decided["fill_device"], "remove it"},
	"verify_only": {decided["verify_only"], "remove it"},
	"create_only": {decided["create_only"], "remove it"},
}

// engines lists the supported engines. They do no I/O, or only on a device, an export, or files of a directory.
var engines = []string{"sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "aio", "linuxaio", "posixaio", "solarisaio", "windowsaio", "io_uring", "mmap",
	"splice", "libpmem", "libcufile", "falloc", "filestat", "null", "cpuio", nbdEngine}

var (
	network  = bar{"it goes over the network, to no target", "measure a line with the workload network, an object store with the workload object"}
	spoils   = bar{"it would make, cut or remove files where others have their test files", "measure it with the workload command"}
	pastTree = bar{"it goes to a store or device that it names itself, past the target", "another engine, as in ioengine=libaio"}
)

// barredEngines maps the other engines of fio to the reasons why iotax refuses them.
var barredEngines = map[string]bar{
	"exec":     runsCommand,
	"external": {"it would load a library", "another engine, as in ioengine=libaio"},
	"net":      network, "netsplice": network, "rdma": network, "http": network, "librpma_apm_client": network, "librpma_apm_server": network,
	"librpma_gpspm_client": network, "librpma_gpspm_server": network,
	"ftruncate": spoils, "filecreate": spoils, "filedelete": spoils, "dircreate": spoils, "dirstat": spoils, "dirdelete": spoils, "fileoperations": spoils, "e4defrag": spoils,
	"rbd": pastTree, "rados": pastTree, "gfapi": pastTree, "gfapi_async": pastTree, "libhdfs": pastTree, "nfs": pastTree, "dfs": pastTree, "libiscsi": pastTree,
	"libblkio": pastTree, "xnvme": pastTree, "mtd": pastTree, "dev-dax": pastTree, "pmemblk": pastTree, "ime_sync": pastTree, "ime_psync": pastTree, "ime_aio": pastTree,
	"io_uring_cmd": pastTree,
	"sg":           {"a partition is the whole disk to it", "another engine, as in ioengine=libaio"},
}

// memories lists the values of mem that keep fio's buffers in memory, not in a file.
var memories = []string{"malloc", "shm", "shmhuge", "mmap", "mmaphuge", "mmapshared", "cudamalloc"}

// refuse returns an error if a job must not have the option or its value. The value may still contain variables.
// `unclear` calls refuse again after the variables have been replaced.
func refuse(s fio.Setting) *plan.FieldError {
	no := func(hint, format string, args ...any) *plan.FieldError {
		return &plan.FieldError{Field: s.Key, Msg: fmt.Sprintf(format, args...), Hint: hint}
	}
	if e := keepsSecret(s.Key); e != nil {
		return e
	}
	o, known := fio.LookupOption(s.Key)
	if b, ok := barred[fio.Canonical(s.Key)]; ok {
		return no(b.hint, "%s: %s", s.Key, b.why)
	}
	if !known {
		return unknown(s.Key)
	}
	_, ours := decided[o.Name]
	open := strings.Contains(s.Value, "$")
	switch {
	case ours || slices.Contains(order, o.Name): // not passed to fio
	case s.Bare && !strings.HasPrefix(o.Type, "empty or"):
		return no("write "+s.Key+"=VALUE", "%s has no value: fio would take the next word as its value", s.Key)
	case strings.ContainsFunc(s.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return no("write it in one line", "%s=%q has control characters", s.Key, s.Value)
	case strings.ContainsAny(s.Value, "#;"):
		return no("write it without # and ;", "%s=%s: fio reads a comment from # or ; on", s.Key, s.Value)
	case o.Engine != "" && !slices.Contains(engines, o.Engine):
		b := barredEngine(o.Engine)
		return no("remove it", "%s is an option of the engine %s: %s", s.Key, o.Engine, b.why)
	case o.Name == "ioengine" && !open && !slices.Contains(engines, s.Value):
		b := barredEngine(s.Value)
		return no(b.hint, "ioengine=%s: %s", s.Value, b.why)
	case o.Name == "mem" && !open && !slices.Contains(memories, s.Value):
		return no("one of "+strings.Join(memories, ", "), "%s=%s: buffers are kept in memory, not in a file", s.Key, s.Value)
	case (o.Name == "buffer_pattern" || o.Name == "verify_pattern") && strings.Contains(s.Value, "'"):
		return no(`write the bytes, as in 0xdeadbeef or "text"`, "%s=%s: %s", s.Key, s.Value, readsFile.why)
	}
	return nil
}

// unclear does the same as refuse for a setting whose variables have been replaced. For engines, memory types and
// patterns, it also refuses values that still contain variables, because fio would replace them with other values.
func unclear(s fio.Setting) *plan.FieldError {
	if slices.Contains([]string{"ioengine", "mem", "buffer_pattern", "verify_pattern"}, fio.Canonical(s.Key)) && strings.Contains(s.Value, "$") {
		return &plan.FieldError{Field: s.Key, Msg: fmt.Sprintf("%s=%s: a variable of a variable", s.Key, s.Value), Hint: "write the value itself"}
	}
	return refuse(s)
}

func barredEngine(name string) bar {
	kind, _, _ := strings.Cut(name, ":")
	if b, ok := barredEngines[kind]; ok {
		return b
	}
	b := bar{"not an engine that iotax supports", "one of " + strings.Join(engines, ", ")}
	if n := plan.Nearest(name, engines); n != "" {
		b.hint = fmt.Sprintf("did you mean %q?", n)
	}
	return b
}

// unknown returns the error for a name that is not an option of a job. fio also accepts abbreviated names and options
// of fio itself on its command line.
func unknown(key string) *plan.FieldError {
	full, own := fio.Completed(key)
	if own {
		return &plan.FieldError{Field: key, Msg: key + " is an option of fio itself, not of a job", Hint: "remove it"}
	}
	e := &plan.FieldError{Field: key, Msg: "fio has no option " + key, Hint: "remove it; iotax passes on only options that it supports"}
	if full == "" {
		full = plan.Nearest(key, fio.OptionNames())
	}
	if b, ok := barred[full]; ok {
		e.Hint = fmt.Sprintf("remove it; fio would take it for %q: %s", full, b.why)
	} else if full != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", full)
	}
	return e
}

// refusals returns an error for options that a job file or a command must not have, and for mistakes that can be found
// without running fio. Its errors are *fio.JobError.
func refusals(jobs []fio.JobSpec) error {
	for _, job := range jobs {
		for _, s := range job.Settings {
			fail := func(msg, hint string) error {
				return &fio.JobError{File: s.File, Line: s.Line, Column: s.Column, Msg: msg, Hint: hint}
			}
			if e := refuse(s); e != nil {
				return fail(e.Msg, e.Hint)
			}
			if at := strings.TrimLeft(s.Value, " \t"); at != s.Value && strings.Trim(at, "0123456789") != "" {
				return fail(fmt.Sprintf("%s=%q: the space behind the = is a part of the value to fio", s.Key, s.Value), "write "+s.Key+"="+at)
			}
			switch key := fio.Canonical(s.Key); {
			case key == "rw" && !strings.Contains(s.Value, "$"):
				if err := checkOption("rw", s.Value); err != nil {
					slip := fieldError(key, err)
					return fail(slip.Msg, slip.Hint)
				}
			case key == "kb_base" && s.Value != "1000" && s.Value != "1024":
				return fail("kb_base is 1000 or 1024", "kb_base=1024")
			}
		}
	}
	return nil
}
