package report

import (
	"slices"
	"testing"

	"iotax/internal/testenv/reporttest"
)

func TestProfile(t *testing.T) {
	r := New(reporttest.Profiled(8))
	if len(r.Sections) != 1 || r.Sections[0].Rows[1].Ran != 8 || !r.Sections[0].Rows[1].Ratio.Contains(.25) {
		t.Errorf("the headline has changed: %+v", r.Sections)
	}
	if len(r.Profiles) != 1 || len(r.Profiles[0].Targets) != 3 || r.Profiles[0].Per != "I/O" {
		t.Fatalf("%+v", r.Profiles)
	}
	const µs = 1e-6
	host, disk, share := r.Profiles[0].Targets[0], r.Profiles[0].Targets[1], r.Profiles[0].Targets[2]
	if !host.Total.Contains(10.05*µs) || host.Against != "" || host.Difference.N != 0 || len(host.Trials) != 8 || len(host.Functions) != 3 {
		t.Errorf("%+v", host)
	}
	if !disk.Total.Contains(60.3*µs) || !disk.Difference.Contains(50.25*µs) || !disk.Speed.Bounded() {
		t.Errorf("%+v", disk)
	}
	// The largest difference is first. A function that only the reference calls has a difference too.
	var names []string
	for _, f := range disk.Functions {
		names = append(names, f.Name)
	}
	if want := []string{"vfs_read", "aio_worker", "[stack not recorded]", "io_loop", "copy"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if f := disk.Functions[0]; f.File != "[kernel]" || !f.Time.Contains(40.2*µs) || !f.Difference.Contains(36.18*µs) || f.Difference.Hi-f.Difference.Lo > 1*µs {
		t.Errorf("%+v", f)
	}
	if f := disk.Functions[3]; f.Time.Estimate != 0 || !f.Difference.Contains(-4.02*µs) {
		t.Errorf("%+v", f)
	}
	// The difference of a frame is that of its function in all processes, and includes the functions that it calls.
	read := disk.Stacks["qemu"].Below["aio_worker"].Below["vfs_read"]
	if !near(read.Time, 42.21*µs, .01*µs) || !near(read.More, 36.18*µs, .01*µs) || !near(read.Below["copy"].More, 0, .01*µs) {
		t.Errorf("%+v", read)
	}
	if share.Unknown != "profile processes: operation not permitted" || len(share.Stacks) > 0 {
		t.Errorf("%+v", share)
	}
}

// Without counts of I/Os, times are per trial. Without a profile of the reference, there are no differences.
func TestProfileOfCommands(t *testing.T) {
	run, trials := reporttest.Profiled(6)
	for _, x := range trials {
		x.Values = x.Values[:1]
		if x.Target == "host disk" {
			x.Profile = nil
		}
	}
	p := New(run, trials).Profiles[0]
	if disk := p.Targets[1]; p.Per != "trial" || p.Targets[0].Unknown == "" || disk.Against != "" || disk.Difference.N != 0 || !disk.Total.Contains(.603) {
		t.Errorf("%+v", p)
	}
}
