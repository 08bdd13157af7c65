package shell

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// space is the size of the volume at path and what is free there for this user, in bytes.
func space(path string) (size, free int64, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, err
	}
	var total, mine uint64
	if err := windows.GetDiskFreeSpaceEx(p, &mine, &total, nil); err != nil {
		return 0, 0, err
	}
	return int64(total), int64(mine), nil
}

// release is that of the kernel.
func release() string {
	v := windows.RtlGetVersion()
	return fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
}
