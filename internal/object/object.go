// Package object performs and measures operations at an S3 endpoint. Work runs them in the agent on the machine that
// generates the load. The access keys are passed in the Job, not in arguments or environment variables.
package object

import (
	"context"
	"errors"
	"time"

	"iotax/internal/agent"
)

// A Job describes the work of one process.
type Job struct {
	Op       string // one of the Op constants
	Endpoint Endpoint
	Prefix   string // of every object that is written, read or removed: "iotax-…/"
	Batch    Batch
	Label    string // for OpMark: the label of the run, one line
	Keep     bool   // for OpClean: keep the marker
	File     string // for OpPutFile and OpGetFile: path on this machine
	Object   string // for OpPutFile and OpGetFile: key of the object, without Prefix
}

// Operations of a Job.
const (
	OpLook    = "look"    // check the bucket, create it if Create is set, and report whether it keeps versions
	OpMark    = "mark"    // write the label of the run under the prefix, so that the run's leftovers can be found
	OpBatch   = "batch"   // upload, download and remove a batch
	OpClean   = "clean"   // remove every object and unfinished upload under the prefix
	OpPutFile = "putfile" // upload File as Object
	OpGetFile = "getfile" // download Object, which has Batch.Size bytes, to File
)

// Unknown is the value of the fact "versioning" if the store does not report whether the bucket keeps versions, for
// example because the access key lacks the permission.
const Unknown = "unknown"

// An Endpoint describes a bucket and how to reach it.
type Endpoint struct {
	Host   string // including the port
	Bucket string
	TLS    bool
	CA     string // PEM certificates that are trusted in addition to the system's
	Region string
	Style  string // auto, path, virtual

	Access string
	Secret string
	Token  string

	Create  bool          // the bucket belongs to iotax: create it if it is missing
	Payload string        // default, unsigned, checksum
	Timeout time.Duration // of every request, including its response; 0 means DefaultTimeout
}

// A Batch is a set of objects of one size.
type Batch struct {
	Size        int64
	Count       int
	Clients     int
	Part        int64 // bytes of a part of a multipart upload
	Concurrency int
	Seed        uint64
	Verify      bool
}

// A Result is the result of a Job.
type Result struct {
	Upload, Download Phase
	Facts            map[string]string `json:"facts,omitempty"`
	Duration         float64           `json:"duration"` // s, for OpPutFile and OpGetFile
	Bytes            int64             `json:"bytes"`
	Error            *Failure          `json:"error,omitempty"`
}

// A Phase contains the results of the uploads or of the downloads of a batch.
type Phase struct {
	Duration  float64   `json:"duration"` // s, from the start of the first request to the end of the last
	Bytes     int64     `json:"bytes"`
	CPU       float64   `json:"cpu"`        // s, of the process, excluding Checking
	Checking  float64   `json:"checking"`   // s of CPU time for the checksums of downloads
	Latencies []float64 `json:"latencies"`  // s, for each object
	FirstByte []float64 `json:"first_byte"` // s, for each download
}

// A Failure is an error that can be passed between processes.
type Failure struct {
	Op   string `json:"op"`
	Code string `json:"code,omitempty"` // S3 error code, such as "NoSuchBucket"
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

func (f *Failure) Error() string {
	s := f.Op + ": " + f.Text
	if f.Code != "" {
		s = f.Op + ": " + f.Code + ": " + f.Text
	}
	return s
}

// Work performs a Job. Call it with Alone, because it measures the CPU time of its process. If the job fails,
// Result.Error contains the reason.
var Work = agent.New("object", func(ctx context.Context, j Job) (*Result, error) {
	r, err := Do(ctx, j)
	if r == nil {
		r = &Result{}
	}
	if err != nil && !errors.As(err, &r.Error) {
		r.Error = &Failure{Op: j.Op, Text: err.Error()}
	}
	return r, nil
})
