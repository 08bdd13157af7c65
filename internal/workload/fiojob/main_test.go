package fiojob

import (
	"os"
	"testing"

	"iotax/internal/testenv/worktest"
)

func TestMain(m *testing.M) { os.Exit(worktest.RunTests(m)) }
