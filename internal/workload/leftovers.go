package workload

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"iotax"
	"iotax/internal/leftover"
	"iotax/internal/object"
	"iotax/internal/workload/support"
)

// markStore writes the label of the run below the run's prefix in t's bucket, before anything else is written there. A
// bucket that was created for the run needs no label, because it is removed with its store.
func markStore(ctx context.Context, t *iotax.Target, env support.Env) error {
	label := leftover.Current().String()
	if label == "" || ownStore(t.Place) {
		return nil
	}
	_, _, err := askStore(ctx, t, env, object.OpMark, func(j *object.Job) { j.Label = label })
	return err
}

// ownStore reports whether the place is a bucket that was created for the run.
func ownStore(p iotax.Place) bool {
	u, err := url.Parse(p.Path)
	return err == nil && u.Query().Get("create") != ""
}

// LeftInStore returns the leftovers of runs in the bucket at p: all objects below a prefix of iotax that contains a
// run's label. It accesses the bucket from this host, with the keys that a run would use. Together with an error, it
// returns the leftovers found so far.
func LeftInStore(ctx context.Context, p iotax.Place) (items []leftover.Item, err error) {
	s, err := storeOf(p)
	if err != nil {
		return nil, storeError("look for leftovers in", BucketOf(p), err)
	}
	where := BucketOf(p)
	marks, err := object.Marks(ctx, s.endpoint)
	for _, prefix := range slices.Sorted(maps.Keys(marks)) {
		label, ok := leftover.ParseLabel(marks[prefix])
		if !ok {
			continue
		}
		items = append(items, leftover.Found("objects", prefix, "", where, label, func(ctx context.Context) error {
			_, err := object.Do(ctx, object.Job{Op: object.OpClean, Endpoint: s.endpoint, Prefix: prefix})
			return err
		}))
	}
	if err != nil {
		err = &iotax.Error{Op: "look for leftovers", On: where, Err: err}
	}
	return items, err
}

// BucketOf returns the URL of the bucket without the options in its address.
func BucketOf(p iotax.Place) string {
	u, err := url.Parse(p.Path)
	if err != nil {
		return "a bucket"
	}
	return "s3://" + u.Host + u.Path
}
