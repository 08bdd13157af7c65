// Package object does work at an S3 endpoint and measures it: it runs where the load is to come from, as a function of the
// agent there. The keys are in its input, never in an argument or an environment.
package object

import (
	"context"
	"errors"
	"time"

	"iotax/internal/agent"
)

// A Job is what one process does.
type Job struct {
	Op       string // one of Ops
	Endpoint Endpoint
	Prefix   string // of every object that is written, read or removed: "iotax-…/"
	Batch    Batch
	Label    string // of OpMark: the run's, one line
	Keep     bool   // of OpClean: what OpMark wrote stays
	File     string // of OpPutFile and OpGetFile
	Object   string
}

// What a process can do.
const (
	OpLook    = "look"    // whether the bucket is there, may be used, and is not versioned
	OpMark    = "mark"    // write the label of the run under the prefix, for those who find what it left
	OpBatch   = "batch"   // upload and download a batch, and remove it
	OpClean   = "clean"   // remove every object and unfinished upload under the prefix
	OpPutFile = "putfile" // upload File as Object
	OpGetFile = "getfile" // download Object to File
)

// Unknown is the fact "versioning" of a bucket that does not say, or not to this key, whether it keeps versions.
const Unknown = "unknown"

// An Endpoint is a bucket and how it is reached.
type Endpoint struct {
	Host   string // with the port
	Bucket string
	TLS    bool
	CA     string // certificates in PEM that are trusted besides the system's
	Region string
	Style  string // auto, path, virtual

	Access string
	Secret string
	Token  string

	Create  bool          // the bucket is iotax's own: make it if it is missing
	Payload string        // default, unsigned, checksum
	Timeout time.Duration // of every request, its body included
}

// A Batch is objects of one size.
type Batch struct {
	Size        int64
	Count       int
	Clients     int
	Part        int64 // size of a part of a multipart upload
	Concurrency int
	Seed        uint64
	Verify      bool
}

// A Result is what came of a Job.
type Result struct {
	Upload, Download Phase
	Facts            map[string]string `json:"facts,omitempty"`
	Duration         float64           `json:"duration"` // s, of OpPutFile and OpGetFile
	Bytes            int64             `json:"bytes"`
	Error            *Failure          `json:"error,omitempty"`
}

// A Phase is the uploads or the downloads of a batch.
type Phase struct {
	Duration  float64   `json:"duration"` // s, from the first request to the end of the last
	Bytes     int64     `json:"bytes"`
	CPU       float64   `json:"cpu"`        // s, of the process, without Checking
	Checking  float64   `json:"checking"`   // s of CPU for checksums of what arrived
	Latencies []float64 `json:"latencies"`  // s, of each object
	FirstByte []float64 `json:"first_byte"` // s, of each download
}

// A Failure is an error that crosses the process's end.
type Failure struct {
	Op   string `json:"op"`
	Code string `json:"code,omitempty"` // of S3: "NoSuchBucket"
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

// Work does a job. It is called in a process of its own (Alone), whose CPU time it measures. Failures at the endpoint are in
// the result.
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
