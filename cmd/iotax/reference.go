package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"iotax"
	"iotax/internal/published"
	"iotax/internal/report"
)

// reading holds the flags for the presentation of a report. They override the plan.
type reading struct {
	reference, referenceMap, layout string

	figures []published.Figure
	names   iotax.Reference
	caveat  string
}

const publishedWord = "published:"

func (rd *reading) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&rd.reference, "reference", "", "reference figures to show next to the results: published:NAME ("+strings.Join(published.Names(), ", ")+"), or a table of your own (.csv)")
	f.StringVar(&rd.referenceMap, "reference-map", "", "YAML file with targets:, workloads:, metrics: and values: that maps your names to those of the publication")
	choiceFlag(c, &rd.layout, "layout", "layout of the tables: plain, "+strings.Join(iotax.Layouts, ", ")+" (default: the plan's)", append([]string{"plain"}, iotax.Layouts...)...)
	group(c, groupOutput, "reference", "reference-map", "layout")
	completeBy(c, "reference", cobra.FixedCompletions(publishedSets(), cobra.ShellCompDirectiveDefault))
}

// read checks the flags and reads the files that they name.
func (rd *reading) read() error {
	if rd.referenceMap != "" {
		src, err := iotax.ReadFile(rd.referenceMap, maxReferenceMap)
		if err != nil {
			return iotax.Usage(&iotax.Error{Op: "read --reference-map", On: rd.referenceMap, Err: iotax.Cause(err), Hint: "name a YAML file that can be read"})
		}
		var m struct {
			Published                           string
			Targets, Workloads, Metrics, Values map[string]string
		}
		if err := yaml.UnmarshalWithOptions(src, &m, yaml.Strict()); err != nil {
			return iotax.Usage(&iotax.Error{Op: "read --reference-map", On: rd.referenceMap, Err: err,
				Hint: "write targets: {YOURS: THEIRS}, and likewise workloads: and metrics:"})
		}
		rd.names = iotax.Reference{Published: m.Published, Targets: m.Targets, Workloads: m.Workloads, Metrics: m.Metrics, Values: m.Values}
		if m.Published != "" && rd.reference == "" {
			rd.reference = publishedWord + m.Published
		}
	}
	if rd.reference == "" {
		return nil
	}
	name, shipped := strings.CutPrefix(rd.reference, publishedWord)
	if shipped {
		figures, ok := published.Figures(name)
		if !ok {
			return iotax.Usage(&iotax.Error{Op: "read --reference", On: rd.reference, Err: errors.New("there is no published data set of this name"),
				Hint: "use one of " + publishedWord + strings.Join(published.Names(), ", "+publishedWord)})
		}
		rd.figures, rd.names.Published, rd.caveat = figures, name, published.Caveat(name)
		return nil
	}
	f, err := os.Open(rd.reference)
	if err != nil {
		return iotax.Usage(&iotax.Error{Op: "read --reference", On: rd.reference, Err: errors.Unwrap(err),
			Hint: "name a .csv file, or " + publishedWord + strings.Join(published.Names(), ", "+publishedWord)})
	}
	defer f.Close()
	if rd.figures, err = published.Read(iotax.Limit(f, maxReferenceTable)); err != nil {
		return iotax.Usage(&iotax.Error{Op: "read --reference", On: rd.reference, Err: err, Hint: "give it the columns suite, source, workload, target, rep, metric, value and unit"})
	}
	rd.names.Published = rd.reference
	return nil
}

const (
	maxReferenceMap   = 1 << 20
	maxReferenceTable = 64 << 20
)

// apply changes rep according to the flags.
func (rd *reading) apply(rep *report.Report) error {
	switch rd.layout {
	case "":
	case "plain":
		rep.Layout = ""
	default:
		rep.Layout = rd.layout
	}
	names := rd.names
	planned := rep.Run.Presentation
	if rd.referenceMap == "" && planned != nil && planned.Reference != nil && planned.Reference.Published == names.Published {
		names = *planned.Reference // the plan already maps names to these figures
	}
	if rd.figures == nil {
		if rd.referenceMap == "" {
			return nil
		}
		if planned == nil || planned.Reference == nil {
			return iotax.Usage(errors.New("--reference-map needs reference figures\n  hint: add --reference"))
		}
		names.Published = planned.Reference.Published
		figures, ok := published.Figures(names.Published)
		if !ok {
			return iotax.Usage(&iotax.Error{Op: "read published figures", On: names.Published, Err: errors.New("this version of iotax does not have this data set"), Hint: "add --reference"})
		}
		rd.figures, rd.caveat = figures, published.Caveat(names.Published)
	}
	var targets, workloads []string
	for _, s := range rep.Sections {
		workloads = append(workloads, s.Workload)
		for _, r := range s.Rows {
			targets = append(targets, r.Target)
		}
	}
	for _, c := range []struct {
		what  string
		names map[string]string
		known []string
	}{{"target", names.Targets, targets}, {"workload", names.Workloads, workloads}} {
		for _, name := range slices.Sorted(maps.Keys(c.names)) {
			if !slices.Contains(c.known, name) && rd.referenceMap != "" {
				slices.Sort(c.known)
				return iotax.Usage(&iotax.Error{Op: "read --reference-map", On: rd.referenceMap, Err: fmt.Errorf("the run has no %s %q", c.what, name),
					Hint: "it has " + strings.Join(slices.Compact(c.known), ", ")})
			}
		}
	}
	rep.HoldReference(rd.figures, names, rd.caveat)
	return nil
}
