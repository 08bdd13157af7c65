package execx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// However the outputs are cut into pieces, the word of the end is taken out of them, and only that.
func TestToldOutputs(t *testing.T) {
	for size := 1; size < 40; size++ {
		var out, errs bytes.Buffer
		exec := Told(func(_ context.Context, args []string, s Streams) (int, error) {
			word := args[4]
			for _, x := range []struct {
				to   io.Writer
				text string
			}{{s.Out, "a\n\x01iotax-\x01" + word[:9] + "\n\x01" + word + " 7\nlate"}, {s.Err, "\x01" + word + " 7\n"}} {
				for b := []byte(x.text); len(b) > 0; {
					n := min(size, len(b))
					if _, err := x.to.Write(b[:n]); err != nil {
						t.Fatal(err)
					}
					b = b[n:]
				}
			}
			return 1, errors.New("the channel ended badly, later")
		})
		code, err := exec(t.Context(), []string{"x"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
		word := "iotax-\x01iotax-" // what was no word of the end stays
		if code != 7 || err != nil || errs.Len() != 0 || !strings.HasPrefix(out.String(), "a\n\x01"+word) || !strings.HasSuffix(out.String(), "\nlate") || strings.Contains(out.String(), " 7\n") {
			t.Fatalf("in pieces of %d: %d, %v, %q, %q", size, code, err, &out, &errs)
		}
	}
}

// A channel that ends well says nothing of its program.
func TestToldNothing(t *testing.T) {
	for _, partly := range []bool{false, true} {
		var out bytes.Buffer
		exec := Told(func(_ context.Context, args []string, s Streams) (int, error) {
			io.WriteString(s.Out, "half\x01")
			if partly {
				io.WriteString(s.Err, "\x01"+args[4]+" 0\n")
			}
			return 0, nil
		})
		_, err := exec(t.Context(), nil, Streams{In: strings.NewReader(""), Out: &out, Err: io.Discard})
		if err == nil || out.String() != "half\x01" {
			t.Errorf("got %v and %q", err, &out)
		}
	}
}
