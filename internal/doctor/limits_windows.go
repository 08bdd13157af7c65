package doctor

import "golang.org/x/sys/windows"

func lockedMemoryLimit() (soft uint64, ok bool) { return 0, false }

func freeBytes(dir string) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
	return free, err
}
