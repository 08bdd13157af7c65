package plan

// For the tests of packages above.
var SampleKinds, Golden, SampleOptions = testKinds, golden, fioOptions
