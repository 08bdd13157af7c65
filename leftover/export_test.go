package leftover

// For the tests outside the package: machine imports this one.
var RunScript = run

const EndProcess = endProcess
