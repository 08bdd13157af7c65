package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// alphabet is Crockford's base 32 in lower case: it lacks letters that resemble digits.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// NewID returns an id for a run that starts now: the date and time in UTC and three random characters, for example
// "251121-014633-7k3". Until 2099, ids sort by time.
func NewID(now time.Time) string {
	var b [3]byte
	rand.Read(b[:]) // never fails
	for i := range b {
		b[i] = alphabet[b[i]%32]
	}
	return now.UTC().Format("060102-150405") + "-" + string(b[:])
}

// checkID returns an error unless the id is safe as a file name and as a command argument, and is not reserved.
func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("the id is empty")
	case id == "latest" || id == "newest":
		return fmt.Errorf("%q means the newest run and cannot be an id", id)
	case len(id) > 64:
		return errors.New("the id is longer than 64 bytes")
	case id[0] == '-' || id[0] == '.':
		return errors.New("the id begins with a dash or a dot")
	}
	for _, c := range []byte(id) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.') {
			return errors.New("an id is made of letters, digits, '-', '_' and '.'")
		}
	}
	return nil
}

func formatSeed(s uint64) string         { return strconv.FormatUint(s, 10) }
func parseSeed(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }
