package leftover

// For the tests outside the package: machine imports this one.
var (
	RunScript = run
	AsRoot    = root
)

const EndProcess = endProcess
