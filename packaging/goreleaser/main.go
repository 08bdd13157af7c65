// Command goreleaser checks a release's configuration. It reads the file with goreleaser's parser, which rejects
// unknown keys and values, and checks that the release has all the builds and packages of iotax. It is a separate
// module, so that iotax does not depend on goreleaser.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: goreleaser FILE")
		os.Exit(2)
	}
	p, err := config.Load(os.Args[1])
	if err == nil {
		err = whole(p)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	fmt.Printf("%s: goreleaser reads it, and a release has all that it should\n", os.Args[1])
}

// whole returns an error for each part that the release lacks.
func whole(p config.Project) error {
	var errs []error
	want := func(what string, has bool) {
		if !has {
			errs = append(errs, errors.New("there is no "+what))
		}
	}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			want("build for "+system+"/"+arch, slices.ContainsFunc(p.Builds, func(b config.Build) bool {
				return slices.Contains(b.Goos, system) && slices.Contains(b.Goarch, arch) && len(b.Ignore) == 0
			}))
		}
	}
	want("agent in the programs: -tags=agents", len(p.Builds) > 0 && !slices.ContainsFunc(p.Builds, func(b config.Build) bool {
		return !slices.Contains(b.Flags, "-tags=agents")
	}))
	want("archive", len(p.Archives) > 0)
	want("SBOM of the programs", slices.ContainsFunc(p.SBOMs, func(s config.SBOM) bool { return s.Artifacts == "binary" }))
	want("checksums.txt", p.Checksum.NameTemplate == "checksums.txt" && !p.Checksum.Disable)
	for _, form := range []string{"deb", "rpm"} {
		want(form, slices.ContainsFunc(p.NFPMs, func(n config.NFPM) bool { return slices.Contains(n.Formats, form) }))
	}
	return errors.Join(errs...)
}
