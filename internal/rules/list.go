package rules

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"

	"iotax"
	"iotax/stat"
)

// text contains the rules in the order of docs/reference/rules.md. Each rule is a MIME header, with an empty line
// between rules. A line that begins with a space continues the field. In Bad and Good, \n is a line break. {least} is
// replaced by stat.LeastTrials.
//
//go:embed rules.txt
var text string

var all = read()

func read() (rules []Rule) {
	in := textproto.NewReader(bufio.NewReader(strings.NewReader(strings.ReplaceAll(text, "{least}", strconv.Itoa(stat.LeastTrials)) + "\n")))
	where := map[string]Where{"job": JobFile, "plan": Plan, "result": Result, "trial": Trial, "run": Run, "work": Work, "report": Report}
	for {
		h, err := in.ReadMIMEHeader()
		if len(h) == 0 && err == io.EOF {
			return rules
		}
		lines := func(key string) string { return strings.ReplaceAll(h.Get(key), `\n`, "\n") }
		r := Rule{ID: h.Get("Id"), Severity: iotax.Severity(h.Get("Severity")), Discards: h.Get("Discards") == "yes",
			Title: h.Get("Title"), Why: h.Get("Why"), Hint: h.Get("Hint"), Bad: lines("Bad"), Good: lines("Good")}
		for word := range strings.FieldsSeq(h.Get("In")) {
			r.In |= where[word]
		}
		if err != nil {
			panic(fmt.Sprintf("rules.txt: rule %d: %v", len(rules), err))
		}
		rules = append(rules, r)
	}
}

// rule returns the rule with this id. It panics if the rule does not exist.
func rule(id string) Rule {
	r, ok := Explain(id)
	if !ok {
		panic("rules.txt has no rule " + id)
	}
	return r
}

// The rules of the registry. rules.txt contains the fields of each rule.
var (
	// Mistakes in job files, plans and results of fio.
	FilenameColon         = rule("filename-colon")
	DeviceOverwritten     = rule("device-overwritten")
	JobsCompete           = rule("jobs-compete")
	JobsOverwrite         = rule("jobs-overwrite")
	LibaioBuffered        = rule("libaio-buffered")
	DepthOfSyncEngine     = rule("depth-of-sync-engine")
	PosixaioDepth         = rule("posixaio-depth")
	FileFitsMemory        = rule("file-fits-memory")
	BufferedWriteUnsynced = rule("buffered-write-unsynced")
	OverwrittenInCache    = rule("overwritten-in-cache")
	Randrepeat            = rule("randrepeat")
	ShortRun              = rule("short-run")
	EndsBySize            = rule("ends-by-size")
	RampNotShorter        = rule("ramp-not-shorter")
	ZeroBuffers           = rule("zero-buffers")
	UnwrittenFile         = rule("unwritten-file")
	SizeUnits             = rule("size-units")
	GtodReduce            = rule("gtod-reduce")
	UnknownOption         = rule("unknown-option")
	BadValue              = rule("bad-value")
	OptionsRefused        = rule("options-refused")
	MisreadValue          = rule("misread-value")
	GuestDiskCache        = rule("guest-disk-cache")
	MemoryTarget          = rule("memory-target")
	RateMismatch          = rule("rate-mismatch")
	NoLatency             = rule("no-latency")
	NotAJob               = rule("not-a-job")
	NotAPlan              = rule("not-a-plan")

	// Rules about one trial, checked when it ends, or about all trials of a run, checked at its end. A rule that
	// discards must not use the ratio of a target to the baseline: discarding trials by their ratio could produce any
	// result.
	NoIO             = rule("no-io")
	ImpossibleValue  = rule("impossible-value")
	HostPaused       = rule("host-paused")
	ClockInsane      = rule("clock-insane")
	ClockDrift       = rule("clock-drift")
	CacheServed      = rule("cache-served")
	WriteAbsorbed    = rule("write-absorbed")
	DeviceDidLess    = rule("device-did-less")
	LineRateExceeded = rule("line-rate-exceeded")
	ForeignIO        = rule("foreign-io")
	ShortTrial       = rule("short-trial")
	ShortWindow      = rule("short-window")
	DrainCounted     = rule("drain-counted")
	Stall            = rule("stall")
	ThrottleStep     = rule("throttle-step")
	WarmUp           = rule("warm-up")
	NotSteady        = rule("not-steady")
	Steal            = rule("steal")
	GeneratorBound   = rule("generator-bound")
	BlockingSubmit   = rule("blocking-submit")
	DepthNotReached  = rule("depth-not-reached")
	HostMemory       = rule("host-memory")
	SameDevice       = rule("same-device")
	NotMounted       = rule("not-mounted")
	UnlikeFacts      = rule("unlike-facts")
	UnlikeDepth      = rule("unlike-depth")
	UnlikeMerging    = rule("unlike-merging")
	GuestBeatsHost   = rule("guest-beats-host")
	HostCache        = rule("host-cache")
	Emulated         = rule("emulated")
	NoisyBaseline    = rule("noisy-baseline")
	RoundsCorrelated = rule("rounds-correlated")
	TwoLevels        = rule("two-levels")

	// Rules that other packages report, during their work or next to a verdict in the report.
	FioError            = rule("fio-error")
	FioVersionDiffers   = rule("fio-version-differs")
	EngineCommon        = rule("engine-common")
	EngineDiffers       = rule("engine-differs")
	SetByIotax          = rule("set-by-iotax")
	JobsRunAlone        = rule("jobs-run-alone")
	CachesNotDropped    = rule("caches-not-dropped")
	StoppedEarly        = rule("stopped-early")
	TargetDropped       = rule("target-dropped")
	CellNotMeasured     = rule("cell-not-measured")
	ShardsDiffer        = rule("shards-differ")
	AANotOne            = rule("aa-not-one")
	NotCalibrated       = rule("not-calibrated")
	LoadNotReached      = rule("load-not-reached")
	ArrivalsLate        = rule("arrivals-late")
	NoGovernor          = rule("no-governor")
	StartDominates      = rule("start-dominates")
	HTTPErrors          = rule("http-errors")
	LeftBehind          = rule("left-behind")
	RunFailed           = rule("run-failed")
	RunnerDied          = rule("runner-died")
	AnotherRun          = rule("another-run")
	ConnectionRemade    = rule("connection-remade")
	ServerDied          = rule("server-died")
	CloneNotFast        = rule("clone-not-fast")
	LazyUnmount         = rule("lazy-unmount")
	Imported            = rule("imported")
	TargetNotOpened     = rule("target-not-opened")
	TrialFailed         = rule("trial-failed")
	CPUBound            = rule("cpu-bound")
	TrialDiscarded      = rule("trial-discarded")
	RoundsDiscarded     = rule("rounds-discarded")
	TooManyDiscarded    = rule("too-many-discarded")
	ComparedWithAnother = rule("compared-with-another")
	DurabilityDiffers   = rule("durability-differs")
	PrecisionNotReached = rule("precision-not-reached")
	FewTrials           = rule("few-trials")
	NoRatio             = rule("no-ratio")
	EnvironmentDiffers  = rule("environment-differs")
	BaselineChanged     = rule("baseline-changed")
	WorkDiffers         = rule("work-differs")
	NoValues            = rule("no-values")
	NoCommonBaseline    = rule("no-common-baseline")
	OneOfMany           = rule("one-of-many")
)

// FioErrors returns the findings about a trial in which fio reported err (nil if none). damaged contains one sentence
// for each damaged part of fio's output.
func FioErrors(about iotax.Subject, err error, damaged []string) []iotax.Finding {
	var fs []iotax.Finding
	if err != nil {
		fs = append(fs, FioError.Only("read the error").Found(about, "%s", err))
	}
	for _, d := range damaged {
		fs = append(fs, FioError.As(iotax.Warning).Without("read the error", true).Found(about, "%s", d))
	}
	return fs
}
