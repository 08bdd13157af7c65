package plan

// For the tests of other packages.
var SampleKinds, Golden, SampleOptions = testKinds, golden, fioOptions
