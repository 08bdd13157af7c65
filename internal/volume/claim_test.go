package volume

import (
	"strings"
	"testing"
)

func TestClaimSpec(t *testing.T) {
	for name, c := range map[string]struct {
		spec ClaimSpec
		want string // expected part of the error; "" means no error
	}{
		"class":               {ClaimSpec{Class: "fast", Mode: "filesystem"}, ""},
		"export":              {ClaimSpec{NFS: "nas.example:/srv/bench", Mode: "filesystem"}, ""},
		"export by address":   {ClaimSpec{NFS: "[fd00::5]:/", Mode: "filesystem"}, ""},
		"no server":           {ClaimSpec{NFS: "/srv/bench", Mode: "filesystem"}, "is not SERVER:/PATH"},
		"no path":             {ClaimSpec{NFS: "nas:srv", Mode: "filesystem"}, "is not SERVER:/PATH"},
		"two in one":          {ClaimSpec{NFS: "nas:/srv", Class: "fast", Mode: "filesystem"}, "neither class nor size"},
		"export of a size":    {ClaimSpec{NFS: "nas:/srv", Size: 1, Mode: "filesystem"}, "neither class nor size"},
		"export as a device":  {ClaimSpec{NFS: "nas:/srv", Mode: "block"}, "neither class nor size"},
		"existing":            {ClaimSpec{Name: "data", Mode: "block"}, ""},
		"existing of a size":  {ClaimSpec{Name: "data", Size: 1, Mode: "filesystem"}, "it has a class and a size"},
		"class with a blank":  {ClaimSpec{Class: "fa st", Mode: "filesystem"}, "is not a name of a storage class"},
		"device of no device": {ClaimSpec{Path: "/dev/x", Mode: "filesystem"}, "is for mode block"},
	} {
		err := c.spec.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// The claim for an NFS export names the export and no raw device.
	v, err := prepareClaim(t.Context(), &ClaimSpec{NFS: "nas:/srv", Mode: "filesystem"}, Env{ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if d := v.Caps().Devices; len(d) != 1 || d[0].Claim.NFS != "nas:/srv" || d[0].Claim.Device != "" {
		t.Errorf("%+v", d)
	}
}
