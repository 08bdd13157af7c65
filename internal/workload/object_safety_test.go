package workload

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"iotax"
	"iotax/internal/object"
	"iotax/internal/plan"
	"iotax/internal/workload/support"
)

// Objects outside the run's own prefix stay, even under prefixes with the same beginning. A bucket that keeps versions
// or locks objects, or that may do so, is refused unless the plan allows it.
func TestObjectsOfOthers(t *testing.T) {
	target, _ := aStore(t)
	u, err := url.Parse(target.Place.Path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := minio.New(u.Host, &minio.Options{Creds: credentials.NewStaticV4("testaccess", "testsecret-not-to-be-told", ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	if u.Query().Get("prefix") != "iotax-test/" {
		t.Fatal(target.Place.Path)
	}
	for _, name := range []string{"mine", "iotax-testament", "iotax-tests/x", "iotax-other/x"} {
		if _, err := c.PutObject(t.Context(), "bench", name, strings.NewReader("dear to somebody"), 16, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	spec := newObject().(*Object)
	spec.Size, spec.Count = 1<<10, 3
	w, err := New(plan.Workload{Name: "objects", Kind: "object", Spec: spec}, support.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context(), target, &iotax.Trial{Seed: 5, Facts: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	// This object represents what an interrupted trial would leave.
	if _, err := c.PutObject(t.Context(), "bench", "iotax-test/left", strings.NewReader("x"), 1, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Cleanup(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	var there []string
	for o := range c.ListObjects(t.Context(), "bench", minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		there = append(there, o.Key)
	}
	if got, want := strings.Join(there, " "), "iotax-other/x iotax-testament iotax-tests/x mine"; got != want {
		t.Errorf("the bucket holds %q, want %q", got, want)
	}

	// If the query for versioning fails, the bucket is refused, because removed objects may stay.
	status := http.StatusForbidden
	store := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: u.Host})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Has("versioning") || q.Has("object-lock") {
			w.WriteHeader(status)
			io.WriteString(w, `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>`)
			return
		}
		store.ServeHTTP(w, r)
	}))
	defer front.Close()
	denied := *target
	denied.Place.Path = strings.Replace(target.Place.Path, u.Host, strings.TrimPrefix(front.URL, "http://"), 1)
	for _, status = range []int{http.StatusForbidden, http.StatusBadRequest} {
		if err := w.Check(t.Context(), &denied); err == nil || !strings.Contains(err.Error(), "whether it keeps versions") || !strings.Contains(err.Error(), "s3:GetBucketVersioning") {
			t.Errorf("a store that answers %d to who asks: %v", status, err)
		}
	}
	denied.Place.Path += "&versioned=yes"
	if err := w.Check(t.Context(), &denied); err != nil {
		t.Errorf("a key that may not ask, and a plan that says that it may be used: %v", err)
	}

	// A bucket that locks objects is refused, because they cannot be removed.
	if err := c.MakeBucket(t.Context(), "locked", minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	locked := *target
	locked.Place.Path = strings.Replace(target.Place.Path, "/bench?", "/locked?", 1)
	if err := w.Check(t.Context(), &locked); err == nil || !strings.Contains(err.Error(), "or locks them") || !strings.Contains(err.Error(), "versioned: true") {
		t.Errorf("a bucket that locks objects: %v", err)
	}
	if r, _, err := askStore(t.Context(), &iotax.Target{Name: "locked", Machine: locked.Machine, Place: iotax.Place{Kind: iotax.PlaceURL, Path: locked.Place.Path + "&versioned=yes"}}, support.Env{}, object.OpLook, nil); err != nil || r.Facts["object lock"] != "Enabled" {
		t.Errorf("%+v, %v", r, err)
	}

	if err := c.EnableVersioning(t.Context(), "bench"); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context(), target); err == nil || !strings.Contains(err.Error(), "it keeps versions") || !strings.Contains(err.Error(), "versioned: true") {
		t.Errorf("got %v", err)
	}
	target.Place.Path += "&versioned=yes"
	if err := w.Check(t.Context(), target); err != nil {
		t.Error(err)
	}
}
