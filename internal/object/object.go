// Package object does work at an S3 endpoint and measures it: it runs where the load is to come from, in a process of
// its own, which reads one Job from standard input and writes one Result to standard output. Keys thus never stand in an
// argument or an environment.
package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Job is what one process does.
type Job struct {
	Op       string   `json:"op"` // one of Ops
	Endpoint Endpoint `json:"endpoint"`
	Prefix   string   `json:"prefix"` // of every object that is written, read or removed: "iotax-…/"
	Batch    Batch    `json:"batch"`
	Label    string   `json:"label,omitempty"` // of OpMark: the run's, one line
	Keep     bool     `json:"keep,omitempty"`  // of OpClean: what OpMark wrote stays
	File     string   `json:"file,omitempty"`  // of OpPutFile and OpGetFile
	Object   string   `json:"object,omitempty"`
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
	Host   string `json:"host"` // with the port
	Bucket string `json:"bucket"`
	TLS    bool   `json:"tls"`
	CA     string `json:"ca,omitempty"` // certificates in PEM that are trusted besides the system's
	Region string `json:"region,omitempty"`
	Style  string `json:"style"` // auto, path, virtual

	Access string `json:"access"`
	Secret string `json:"secret"`
	Token  string `json:"token,omitempty"`

	Create  bool          `json:"create,omitempty"`  // the bucket is iotax's own: make it if it is missing
	Payload string        `json:"payload"`           // default, unsigned, checksum
	Timeout time.Duration `json:"timeout,omitempty"` // of every request, its body included
}

// A Batch is objects of one size.
type Batch struct {
	Size        int64  `json:"size"`
	Count       int    `json:"count"`
	Clients     int    `json:"clients"`
	Part        int64  `json:"part"` // size of a part of a multipart upload
	Concurrency int    `json:"concurrency"`
	Seed        uint64 `json:"seed"`
	Verify      bool   `json:"verify"`
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

// maxJob bounds what is read: certificates are the largest part.
const maxJob = 4 << 20

// Serve reads a job from in, does it, and writes the result to out. Its error is one of reading and writing; what went
// wrong at the endpoint is in the result.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var j Job
	if err := json.NewDecoder(io.LimitReader(in, maxJob)).Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	r, err := Do(ctx, j)
	if r == nil {
		r = &Result{}
	}
	if err != nil && !errors.As(err, &r.Error) {
		r.Error = &Failure{Op: j.Op, Text: err.Error()}
	}
	return json.NewEncoder(out).Encode(r)
}
