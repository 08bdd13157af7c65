package plan

// These names are for the tests in package plan_test.
var SampleKinds, Golden, SampleOptions = testKinds, golden, fioOptions
