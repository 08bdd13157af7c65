package fiojob

import (
	"os"
	"testing"

	"iotax/internal/testenv/worktest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "hostile" {
		hostile(os.Args[2], os.Args[len(os.Args)-1])
		return
	}
	os.Exit(worktest.RunTests(m))
}
