package workload

import (
	"os"
	"strings"
	"testing"
	"time"

	"iotax"
	"iotax/internal/machine/host"
	"iotax/internal/plan"
	"iotax/internal/testenv/worktest"
)

// Generated workloads leave nothing behind, and report most of the values that their specs list. Invalid specs and
// unsuitable places are rejected.
func TestGenerated(t *testing.T) {
	small := newMetadata().(*Metadata)
	small.Scale(0.05)
	modules, build := newModules().(*Modules), newBuild().(*Build)
	modules.Scale(0.05)
	build.Scale(0.05)
	git := newGit().(*Git)
	git.Scale(0.05)
	load := newDataload().(*Dataload)
	load.Scale(0.05)
	for kind, spec := range map[string]plan.Spec{"metadata": small, "node_modules": modules, "build": build, "git": git, "dataload": load, "wal": newWAL(), "sqlite": newSQLite(), "etcd": newEtcd()} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			w := made(t, kind, spec)
			here := worktest.Target(host.Local(), dir)
			ctx := worktest.CtxFor(t)
			if err := w.Check(ctx, here); err != nil {
				t.Fatal(err)
			}
			if err := w.Prepare(ctx, here); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				out, err := worktest.Again(t, w, here)
				if err != nil {
					t.Fatal(err)
				}
				has := map[string]bool{}
				for _, v := range out.Values {
					has[v.Name] = true
				}
				for _, m := range spec.Traits().Metrics() {
					if strings.HasPrefix(m.Name, "checkpoint.") { // wal reports these only in longer trials
						continue
					}
					if strings.HasSuffix(m.Name, ".mean") || !strings.Contains(m.Name, ".latency.") {
						if !has[m.Name] {
							t.Errorf("no %s", m.Name)
						}
					}
				}
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("a trial left %v", left)
				}
			}
			if err := w.Cleanup(ctx, here); err != nil {
				t.Error(err)
			}

			here.Place.ReadOnly = true
			if err := w.Check(ctx, here); err == nil || !strings.Contains(err.Error(), "cannot be written (read-only)") {
				t.Errorf("a place that is read-only: %v", err)
			}
			here.Place.ReadOnly, here.Place.Kind = false, iotax.PlaceDevice
			if err := w.Check(ctx, here); err == nil || !strings.Contains(err.Error(), "it needs a directory") {
				t.Errorf("a device: %v", err)
			}
		})
	}
	vast := newMetadata().(*Metadata)
	vast.Files, vast.Size = 1e6, 1<<20
	if err := made(t, "metadata", vast).Check(worktest.CtxFor(t), worktest.Target(host.Local(), t.TempDir())); err == nil || !strings.Contains(err.Error(), "needed in") {
		t.Errorf("no space: %v", err)
	}
	for _, c := range []struct {
		wrong interface{ Validate() error }
		says  []string
	}{
		{&Metadata{Directories: -1, Depth: 99, Workers: 1e6, Size: 1, Timeout: plan.Duration(time.Millisecond)}, []string{"files: 0 is not from 1 to", "directories", "depth", "workers", "size", "timeout"}},
		{&Modules{Files: -1}, []string{"files", "workers", "timeout"}},
		{&Dataload{Step: -1}, []string{"shards", "record", "workers", "batch", "step", "checkpoint", "timeout"}},
		{&Dataload{Data: 1, Shards: 2, Record: 16, Workers: 1, Batch: 1, Checkpoint: 1 << 20, Timeout: plan.Duration(time.Minute)}, []string{"data: 1 is not from 32 to"}},
		{&Dataload{Data: 1 << 40, Shards: 1, Record: 16, Workers: 1, Batch: 1, Checkpoint: 1 << 20, Timeout: plan.Duration(time.Minute)}, []string{"data: 1099511627776 is not from 16 to 160000000"}},
		{&Dataload{Data: 1 << 30, Shards: 1, Record: 64 << 20, Workers: 256, Batch: 1, Checkpoint: 1 << 20, Timeout: plan.Duration(time.Minute)}, []string{"workers: 256 threads with 128MiB each hold more than 256MiB"}},
		{&WAL{Committers: 1024, Record: 1 << 20}, []string{"committers: 1024 threads with 1MiB each hold more than 256MiB"}},
		{&Git{}, []string{"files", "timeout"}},
		{&Build{Includes: -1, Compile: -1}, []string{"sources", "headers", "includes", "jobs", "compile", "timeout"}},
		{&WAL{Method: "hope"}, []string{"committers", "record", "data", "checkpoint", `method: "hope" is not one of fdatasync, fsync, open_datasync`}},
		{&SQLite{Transaction: "hope", Journal: "off", Synchronous: "off"}, []string{"accounts", "transaction", `journal: "off" is not one of wal, delete`, "synchronous"}},
	} {
		err := c.wrong.Validate()
		for _, field := range c.says {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%s: %v", field, err)
			}
		}
	}
}
