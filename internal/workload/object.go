package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"iotax"
	"iotax/internal/metric"
	"iotax/internal/object"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
)

// Object is the spec of `object: {…}`. The workload uploads a batch of objects of one size to a bucket and downloads
// them again.
type Object struct {
	Size        plan.Size     `yaml:"size" doc:"size of each object"`
	Count       int           `yaml:"count" doc:"number of objects"`
	Clients     int           `yaml:"clients" doc:"number of objects in flight at the same time"`
	Part        plan.Size     `yaml:"part" doc:"part size of multipart uploads; smaller objects are uploaded whole"`
	Concurrency int           `yaml:"concurrency" doc:"number of parts of an upload in flight at the same time"`
	Payload     string        `yaml:"payload" doc:"how the payload is protected: default does what minio-go does (signed chunk by chunk over http, unsigned over https); unsigned; checksum sends a CRC-32C after it" enum:"default,unsigned,checksum"`
	Timeout     plan.Duration `yaml:"timeout" doc:"time limit of every request, including its body"`
	Verify      bool          `yaml:"verify" doc:"compare the CRC-64/NVME of downloaded objects; its CPU time is counted separately"`
}

func newObject() plan.Spec {
	return &Object{Size: 4 << 20, Count: 1, Clients: 1, Part: 16 << 20, Concurrency: 8, Payload: "default", Timeout: plan.Duration(object.DefaultTimeout), Verify: true}
}

func (o *Object) Traits() plan.Traits { return plan.Traits{Scale: o.Scale, Metrics: o.metrics} }

func (o *Object) metrics() (all []metric.Metric) {
	for _, d := range [][2]string{{"upload", "put"}, {"download", "get"}} {
		all = slices.Concat(all, metric.Of(iotax.BytesPerSecond, iotax.Up, d[0]+".bandwidth", "bytes per second"),
			metric.Of(iotax.PerSecond, iotax.Up, d[1]+".rate", "requests per second"),
			metric.Of(iotax.Seconds, iotax.Down, d[0]+".duration", "time of all requests", d[0]+".cpu", "CPU time of the client"),
			metric.Latency(d[1]+".latency", "time of a request"))
	}
	return append(all, metric.Latency("get.ttfb", "time to the first byte of an answer")...)
}

// Scale multiplies the size of the objects by a factor. Their number stays the same.
func (o *Object) Scale(by float64) { o.Size = max(1, plan.Size(float64(o.Size)*by)) }

// Validate checks the values of the fields. The limits for size and part are those of S3.
func (o *Object) Validate() error {
	var errs []error
	refuse := func(bad bool, field, msg, hint string) {
		if bad {
			errs = append(errs, &plan.FieldError{Field: field, Msg: msg, Hint: hint})
		}
	}
	refuse(o.Size < 1 || o.Size > 5<<40, "size", fmt.Sprintf("%v is not a size of an object", o.Size), "1 byte to 5TiB")
	refuse(o.Count < 1 || o.Count > 100000, "count", fmt.Sprintf("%d is not a number from 1 to 100000", o.Count), "")
	refuse(o.Clients < 1 || o.Clients > 1024, "clients", fmt.Sprintf("%d is not a number from 1 to 1024", o.Clients), "")
	refuse(o.Part < 5<<20 || o.Part > 5<<30, "part", fmt.Sprintf("%v is not a size of a part", o.Part), "S3 takes 5MiB to 5GiB")
	refuse(o.Part > 0 && o.Size > 10000*o.Part, "part", "there would be more than 10000 parts", "a larger part")
	refuse(o.Concurrency < 1 || o.Concurrency > 256, "concurrency", fmt.Sprintf("%d is not a number from 1 to 256", o.Concurrency), "")
	refuse(!slices.Contains([]string{"default", "unsigned", "checksum"}, o.Payload), "payload", fmt.Sprintf("%q is not known", o.Payload), "default, unsigned or checksum")
	refuse(o.Timeout < plan.Duration(time.Second), "timeout", "is too short for a request", "1s or more")
	return errors.Join(errs...)
}

func openObject(w plan.Workload, s *Object, e support.Env) (iotax.Workload, error) {
	return &objects{name: w.Name, spec: *s, env: e}, nil
}

type objects struct {
	name string
	spec Object
	env  support.Env
}

func (o *objects) Metrics() []string {
	if o.spec.Count > 1 {
		return []string{iotax.ValueUploadBandwidth, "download.bandwidth", iotax.ValuePutRate, iotax.ValueGetRate}
	}
	return []string{iotax.ValueUploadBandwidth, "download.bandwidth"}
}

// Space returns the total size of the objects in bytes.
func (o *objects) Space() int64 { return int64(o.spec.Size) * int64(o.spec.Count) }

// Caps limits a trial, because a store may hang in every request.
func (o *objects) Caps() iotax.WorkloadCaps {
	limit := min(time.Duration(o.spec.Timeout)*4+time.Duration(o.Space()/(1<<20))*time.Second, 30*time.Minute)
	return iotax.WorkloadCaps{Space: o.Space, Limit: limit}
}

// A store holds the address of a target's bucket and the keys for it.
type store struct {
	endpoint  object.Endpoint
	prefix    string
	versioned bool
}

// storeOf parses the place of a bucket. Keys and certificates come from this host.
func storeOf(p iotax.Place) (store, error) {
	u, err := url.Parse(p.Path)
	if err != nil || u.Scheme != "s3" || p.Kind != iotax.PlaceURL {
		return store{}, fmt.Errorf("%s is not a bucket", p.Path)
	}
	q := u.Query()
	s := store{prefix: q.Get("prefix"), versioned: q.Get("versioned") != "",
		endpoint: object.Endpoint{Host: u.Host, Bucket: strings.Trim(u.Path, "/"), TLS: q.Get("tls") == "on", Region: q.Get("region"), Style: q.Get("style"), Create: q.Get("create") != ""}}
	if ca := q.Get("ca"); ca != "" {
		b, err := iotax.ReadFile(ca, iotax.MaxOutput)
		if err != nil {
			return store{}, fmt.Errorf("ca: %w", err)
		}
		s.endpoint.CA = string(b)
	}
	c := credentials.NewEnvAWS()
	if file := q.Get("credentials"); file != "" {
		_, err := os.Stat(file)
		if err == nil {
			err = iotax.CheckSize(file, iotax.MaxOutput)
		}
		if err != nil {
			return store{}, fmt.Errorf("credentials: %w", err)
		}
		c = credentials.NewFileAWSCredentials(file, os.Getenv("AWS_PROFILE"))
	}
	v, err := c.GetWithContext(&credentials.CredContext{Client: http.DefaultClient})
	if err != nil {
		return store{}, errors.New("its keys cannot be read") // the cause may contain the keys
	}
	if v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return store{}, errNoKeys
	}
	s.endpoint.Access, s.endpoint.Secret, s.endpoint.Token = v.AccessKeyID, v.SecretAccessKey, v.SessionToken
	return s, nil
}

var errNoKeys = errors.New("there are no keys for it")

// storeError adds a hint to an error of storeOf.
func storeError(op, on string, err error) error {
	hint := "a target {bucket: …}, and at: its name"
	if errors.Is(err, errNoKeys) {
		hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file with credentials:"
	}
	return &iotax.Error{Op: op, On: on, Err: err, Hint: hint}
}

// askStore runs a job on the bucket of t, from t's machine. It returns the result, and the result as JSON. For
// object.OpLook, it also returns an error if removed objects may stay in the bucket and the plan does not allow that.
func askStore(ctx context.Context, t *iotax.Target, env support.Env, op string, fill func(*object.Job)) (*object.Result, []byte, error) {
	s, err := storeOf(t.Place)
	if err != nil {
		return nil, nil, storeError(op+" at", t.Name, err)
	}
	j := object.Job{Op: op, Endpoint: s.endpoint, Prefix: s.prefix}
	if fill != nil {
		fill(&j)
	}
	r, err := object.Work.Alone(ctx, t.Machine, j)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(r)
	if err == nil && r.Error != nil {
		err = &iotax.Error{Op: r.Error.Op, On: "of " + t.Name, Err: errors.New(strings.TrimPrefix(r.Error.Error(), r.Error.Op+": ")), Hint: r.Error.Hint}
	}
	switch {
	case err != nil || op != object.OpLook || s.versioned:
	case r.Facts[iotax.FactVersioning] == object.Unknown && r.Facts["object lock"] == "":
		err = &iotax.Error{Op: "use bucket", On: s.endpoint.Bucket + " of " + t.Name, Err: errors.New("it does not report to this key whether it keeps versions of objects, so that removed objects may stay"),
			Hint: "allow the key s3:GetBucketVersioning, use another bucket, or set versioned: true"}
	case r.Facts[iotax.FactVersioning] != "" || r.Facts["object lock"] != "":
		err = &iotax.Error{Op: "use bucket", On: s.endpoint.Bucket + " of " + t.Name, Err: errors.New("it keeps versions of objects or locks them, so that removed objects stay"), Hint: "use another bucket, or set versioned: true"}
	}
	return r, raw, err
}

// Check returns an error if the target's machine cannot use the bucket.
func (o *objects) Check(ctx context.Context, t *iotax.Target) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Duration(o.spec.Timeout))
	defer cancel()
	_, _, err := askStore(ctx, t, o.env, object.OpLook, func(j *object.Job) { j.Endpoint.Timeout = time.Duration(o.spec.Timeout) })
	return err
}

// Prepare writes the label of the run to the bucket.
func (o *objects) Prepare(ctx context.Context, t *iotax.Target) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Duration(o.spec.Timeout))
	defer cancel()
	return markStore(ctx, t, o.env)
}

// Cleanup removes the run's label and the objects that an interrupted trial left.
func (o *objects) Cleanup(ctx context.Context, t *iotax.Target) error {
	return cleanStore(ctx, t, o.env)
}

func cleanStore(ctx context.Context, t *iotax.Target, env support.Env) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if ownStore(t.Place) {
		return nil // the bucket is removed with its store
	}
	_, _, err := askStore(ctx, t, env, object.OpClean, nil)
	return err
}

// Run uploads and downloads the batch once.
func (o *objects) Run(ctx context.Context, t *iotax.Target, out *iotax.Trial) error {
	s := o.spec
	r, raw, err := askStore(ctx, t, o.env, object.OpBatch, func(j *object.Job) {
		j.Endpoint.Payload, j.Endpoint.Timeout = s.Payload, time.Duration(s.Timeout)
		j.Batch = object.Batch{Size: int64(s.Size), Count: s.Count, Clients: s.Clients, Part: int64(s.Part), Concurrency: s.Concurrency, Seed: out.Seed, Verify: s.Verify}
	})
	out.Raw = raw
	if out.Facts == nil {
		out.Facts = map[string]string{}
	}
	out.Facts["size"], out.Facts["count"], out.Facts[iotax.FactClients] = s.Size.String(), strconv.Itoa(s.Count), strconv.Itoa(s.Clients)
	if s.Size > s.Part {
		out.Facts[iotax.FactPart], out.Facts[iotax.FactConcurrency] = s.Part.String(), strconv.Itoa(s.Concurrency)
	}
	out.Facts[iotax.FactVerified] = map[bool]string{true: object.Checksum, false: "no"}[s.Verify]
	if r != nil {
		for k, v := range r.Facts {
			out.Facts[k] = v
		}
	}
	if err != nil {
		return err
	}
	out.Values = append(out.Values, iotax.Value{Name: iotax.ValueOperations, Value: float64(2 * s.Count), Unit: iotax.Count})
	phase(out, "upload", "put", &r.Upload)
	phase(out, "download", "get", &r.Download)
	return nil
}

// phase adds the values of one direction to out.
func phase(out *iotax.Trial, direction, request string, p *object.Phase) {
	n := float64(len(p.Latencies))
	if n == 0 || p.Duration <= 0 {
		return
	}
	add := func(name string, v float64, unit string, better iotax.Better) {
		out.Values = append(out.Values, iotax.Value{Name: name, Value: v, Unit: unit, Better: better})
	}
	add(direction+".bandwidth", float64(p.Bytes)/p.Duration, iotax.BytesPerSecond, iotax.Up)
	add(request+".rate", n/p.Duration, iotax.PerSecond, iotax.Up)
	add(direction+".duration", p.Duration, iotax.Seconds, iotax.Down)
	add(direction+".cpu", p.CPU, iotax.Seconds, iotax.Down)
	if p.Checking > 0 {
		add(direction+".cpu.checking", p.Checking, iotax.Seconds, iotax.Neither)
	}
	series := func(name string, all []float64) {
		if len(all) == 0 {
			return
		}
		sorted := slices.Sorted(slices.Values(all))
		var sum float64
		for _, v := range sorted {
			sum += v
		}
		add(name+".mean", sum/float64(len(sorted)), iotax.Seconds, iotax.Down)
		out.Histograms = append(out.Histograms, histogram(name, sorted))
	}
	series(request+".latency", p.Latencies)
	series(request+".ttfb", p.FirstByte)
}

// histogram returns the histogram of values, which must be in ascending order. It rounds them to three significant
// digits, and skips values that are not positive.
func histogram(name string, sorted []float64) iotax.Histogram {
	h := iotax.Histogram{Name: name, Unit: iotax.Seconds}
	for _, v := range sorted {
		if v <= 0 {
			continue
		}
		scale := math.Pow(10, math.Floor(math.Log10(v))-2)
		v = math.Round(v/scale) * scale
		if last := len(h.Bins) - 1; last >= 0 && cmp.Compare(h.Bins[last].Value, v) == 0 {
			h.Bins[last].Count++
		} else {
			h.Bins = append(h.Bins, iotax.Bin{Value: v, Count: 1})
		}
	}
	return h
}
