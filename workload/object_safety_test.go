package workload

import (
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"iotax"
	"iotax/plan"
)

// What lies in a bucket beside the run's own prefix stays, under prefixes that begin alike, too; and a bucket that keeps
// versions is refused unless the plan says that it may be used.
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
	w, err := New(plan.Workload{Name: "objects", Kind: "object", Spec: spec}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context(), target, &iotax.Trial{Seed: 5, Facts: map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	// One that a trial which was cut off would leave.
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
