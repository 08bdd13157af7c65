package probe

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/windows"
)

// deviceNumber always returns "", because Windows has no device nodes.
func deviceNumber(string) string { return "" }

// uname returns system, release, machine and node, one per line.
func uname() string {
	v := windows.RtlGetVersion()
	host, _ := os.Hostname()
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return fmt.Sprintf("Windows\n%d.%d.%d\n%s\n%s\n", v.MajorVersion, v.MinorVersion, v.BuildNumber, arch, host)
}
