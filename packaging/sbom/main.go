// Command sbom writes the software bill of materials of a Go program as CycloneDX JSON: the modules in the program's
// build information, with their versions and checksums. The output contains no time and no random data, so the same
// program gives the same bytes. sbom is a separate module, so that iotax does not depend on sbom's dependencies.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM FILE VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write writes the bill of materials of `program` to `file`. version is the version of the program.
func write(program, file, version string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	self := cdx.Component{
		BOMRef: "pkg:golang/" + info.Main.Path + "@" + version, Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		PackageURL: "pkg:golang/" + info.Main.Path + "@" + version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	var made []cdx.Property
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED":
			made = append(made, cdx.Property{Name: "go:" + s.Key, Value: s.Value})
		}
	}
	self.Properties = &made
	parts := []cdx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), "")} // the standard library of Go
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		if m.Sum == "" {
			return errors.New(m.Path + " has no checksum: it was built from sources that nobody can fetch")
		}
		parts = append(parts, component(m.Path, m.Version, m.Sum))
	}
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &self}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6), f.Close())
}

// component returns the component for a module. The checksum is Go's own (dirhash of golang.org/x/mod), for which
// CycloneDX has no name.
func component(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}
