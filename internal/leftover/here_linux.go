package leftover

var here = proc
