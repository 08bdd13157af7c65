package generate

import "os"

// forgetNames makes the kernel drop cached names and attributes of files (drop_caches(5), 2). It needs root.
func forgetNames() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0o200) }
