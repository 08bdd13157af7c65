package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"iotax"
)

// A Part identifies one of several processes that measure a run together (a shard).
type Part struct {
	Index int // counted from 0
	Count int
}

// SavePart saves the part of a run that one of several processes measures. The first process creates the run. SavePart
// also updates the run to the result of `merge`, which gets the parts saved so far in the order of Index. If there are
// many parts, only some calls update the run. SavePart returns an error if another part has a different plan or number of
// shards, or if a single process already measures the run.
func (s *Store) SavePart(ctx context.Context, part *iotax.Run, p Part, merge func(parts []*iotax.Run) *iotax.Run) error {
	if err := checkID(part.ID); err != nil {
		return &iotax.Error{Op: "save run", On: part.ID, Err: err}
	}
	data, err := json.Marshal(part)
	if err != nil {
		return &iotax.Error{Op: "save run", On: part.ID, Err: err}
	}
	return s.save(ctx, "save run "+part.ID, func(ctx context.Context, tx *sql.Tx) error {
		made, err := putRun(ctx, tx, insertRun+` ON CONFLICT DO NOTHING`, part)
		if err != nil {
			return err
		}
		// Other processes wait here until this transaction ends.
		var plan []byte
		if err := tx.QueryRowContext(ctx, `UPDATE runs SET status = status WHERE id = $1 RETURNING plan`, part.ID).Scan(&plan); err != nil {
			return err
		}
		count, err := dividedInto(ctx, tx, part.ID)
		if err != nil {
			return err
		}
		fail := func(why, hint string) error {
			return &iotax.Error{Op: "join run", On: part.ID, Err: errors.New(why), Hint: hint}
		}
		switch {
		case count == 0 && made == 0:
			return fail("one process alone measures this run", "give the shards an id of their own: --id")
		case string(plan) != string(part.Plan):
			return fail("the other shards have another plan", "start every shard with the same plan and flags, or with another --id")
		case count != 0 && count != p.Count:
			return otherCount(part.ID, count, p)
		}
		ended := part.Status != iotax.Running
		if _, err := tx.ExecContext(ctx, `INSERT INTO shards (run, shard, count, ended, data) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (run, shard) DO UPDATE SET ended = excluded.ended, data = excluded.data`, part.ID, p.Index, p.Count, ended, string(data)); err != nil {
			return err
		}
		var joined, over int
		if err := tx.QueryRowContext(ctx, `SELECT count(*), sum(CASE WHEN ended THEN 1 ELSE 0 END) FROM shards WHERE run = $1`, part.ID).Scan(&joined, &over); err != nil {
			return err
		}
		// Merging reads every part. With many parts, merge only after the last part has ended, and when the number of
		// ended parts is a power of two.
		if joined > fewParts && !(ended && (over == p.Count || over&(over-1) == 0)) {
			return nil
		}
		all, err := partsOf(ctx, tx, part.ID)
		if err != nil {
			return err
		}
		whole := merge(all)
		whole.Plan = plan
		_, err = putRun(ctx, tx, updateRun, whole)
		return err
	})
}

const fewParts = 16

func otherCount(id string, count int, p Part) error {
	return &iotax.Error{Op: "join run", On: id, Err: fmt.Errorf("it is divided into %d shards, not %d", count, p.Count), Hint: "give every shard the same number of shards, or another --id"}
}

// dividedInto returns the number of shards of the run, or 0 if no shard has started.
func dividedInto(ctx context.Context, tx *sql.Tx, id string) (count int, err error) {
	err = tx.QueryRowContext(ctx, `SELECT count FROM shards WHERE run = $1 LIMIT 1`, id).Scan(&count)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return count, err
}

// partsOf reads the parts of a run in the order of Index, without the plan.
func partsOf(ctx context.Context, tx *sql.Tx, id string) (parts []*iotax.Run, err error) {
	err = forEach(ctx, tx, `SELECT data FROM shards WHERE run = $1 ORDER BY shard`, []any{id}, func(rows *sql.Rows) error {
		var data []byte
		r := new(iotax.Run)
		if err := rows.Scan(&data); err != nil {
			return err
		}
		parts = append(parts, r)
		return spot{run: id}.unmarshal("a shard", data, r)
	})
	return parts, err
}

// RunParts returns the parts of the run `id` in the order of Index, without the plan. The slice is empty if the run
// is not divided.
func (s *Store) RunParts(ctx context.Context, id string) (parts []*iotax.Run, err error) {
	err = s.read(ctx, "find the shards of run "+id, func(ctx context.Context, tx *sql.Tx) (err error) {
		parts, err = partsOf(ctx, tx, id)
		return err
	})
	return parts, err
}

// Part returns the saved part of a process, with its plan, or nil if the process has not saved one.
func (s *Store) Part(ctx context.Context, id string, p Part) (*iotax.Run, error) {
	var part *iotax.Run
	err := s.read(ctx, "find run "+id, func(ctx context.Context, tx *sql.Tx) error {
		count, err := dividedInto(ctx, tx, id)
		if err != nil || count == 0 {
			return err
		}
		if count != p.Count {
			return otherCount(id, count, p)
		}
		var data, plan []byte
		err = tx.QueryRowContext(ctx, `SELECT s.data, r.plan FROM shards s JOIN runs r ON r.id = s.run WHERE s.run = $1 AND s.shard = $2`, id, p.Index).Scan(&data, &plan)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		r := &iotax.Run{Plan: plan}
		if err := (spot{run: id}).unmarshal(fmt.Sprint("shard ", p.Index), data, r); err != nil {
			return err
		}
		part = r
		return nil
	})
	return part, err
}
