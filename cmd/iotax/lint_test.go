package main

import (
	"slices"
	"testing"
)

func TestHeld(t *testing.T) {
	const lsblk = `NAME="/dev/sda" PKNAME="" TYPE="disk" FSTYPE="" PTTYPE="gpt" MOUNTPOINT=""
NAME="/dev/sda1" PKNAME="/dev/sda" TYPE="part" FSTYPE="vfat" PTTYPE="gpt" MOUNTPOINT="/boot/efi"
NAME="/dev/sda2" PKNAME="/dev/sda" TYPE="part" FSTYPE="LVM2_member" PTTYPE="gpt" MOUNTPOINT=""
NAME="/dev/mapper/vg-root" PKNAME="/dev/sda2" TYPE="lvm" FSTYPE="ext4" PTTYPE="" MOUNTPOINT="/"
NAME="/dev/sdb" PKNAME="" TYPE="disk" FSTYPE="" PTTYPE="" MOUNTPOINT=""
NAME="/dev/sdc" PKNAME="" TYPE="disk" FSTYPE="linux_raid_member" PTTYPE="" MOUNTPOINT=""
NAME="/dev/md0" PKNAME="/dev/sdc" TYPE="raid1" FSTYPE="" PTTYPE="" MOUNTPOINT=""
NAME="/dev/zram0" PKNAME="" TYPE="disk" FSTYPE="swap" PTTYPE="" MOUNTPOINT="[SWAP]"
`
	for device, want := range map[string][]string{
		"/dev/sda":   {"a partition table (gpt)", "mounted at /boot/efi on /dev/sda1", "LVM2_member on /dev/sda2", "mounted at / on /dev/mapper/vg-root"},
		"/dev/sda2":  {"LVM2_member", "mounted at / on /dev/mapper/vg-root"},
		"/dev/sdb":   nil,
		"/dev/sdc":   {"linux_raid_member", "/dev/md0 (raid1) stands on it"},
		"/dev/zram0": {"swap"},
		"/dev/none":  nil,
	} {
		if got := held(lsblk, device); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", device, got, want)
		}
	}
}

// Every rule can be explained, and has a page in the docs of the same text.
func TestEveryRuleIsExplained(t *testing.T) {
	names := ruleNames()
	if len(names) < 60 {
		t.Errorf("%d rules", len(names))
	}
	for _, n := range names {
		if r, ok := explainRule(n); !ok || r.ID != n || r.Why == "" || r.Mend == "" {
			t.Errorf("%s: %+v", n, r)
		}
	}
}
