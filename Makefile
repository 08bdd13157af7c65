# make demo measures from a fresh clone. make test runs most tests, make test-all all of them. See README.md.
GO      ?= go
export CGO_ENABLED = 0

# The commit that the program reports. It is empty without a repository.
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)$(shell test -z "$$(git status --porcelain 2>/dev/null | head -c 1)" || echo +dirty)
# The version of packages and releases. 0.0.0 means that there is no version.
VERSION ?= 0.0.0
# Builds are reproducible: without paths, and without Go's build stamp, which has times.
BUILD = $(GO) build -buildvcs=false -trimpath -ldflags '-s -w -X main.builtFrom=$(COMMIT)$(if $(filter-out 0.0.0,$(VERSION)), -X main.release=$(VERSION))'

# Tools that are built when they are used. go.sum pins everything else.
GOLANGCI ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK ?= $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0
GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.14.1
NFPM ?= $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.2

# The systems of a release.
SYSTEMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: need-demo agents release release-snapshot package-files package-program packages reproducible demo build test test-all test-containers test-k8s kubernetes race lint vulnerabilities cross $(addprefix cross/,$(SYSTEMS)) clean

demo: need-demo build
	bin/iotax demo

# Packages are installed while modules are downloaded and compiled.
need-demo:
	@scripts/need demo
ifeq ($(MAKECMDGOALS),demo)
MAKEFLAGS += -j2
endif

# bin/iotax embeds the agents of this system and of its Linux guests. An agent has a quarter of the size of iotax.
build: SYSTEMS = $(sort $(shell $(GO) env GOOS)/$(shell $(GO) env GOARCH) linux/$(shell $(GO) env GOARCH))
build: agents
	$(BUILD) -tags agents -o bin/iotax ./cmd/iotax

# iotax-agent for each of SYSTEMS, for other machines. Releases and packages embed them: -tags agents. See
# internal/agent/program.go.
AGENTS = internal/agent/agents
agents:
	@GOGC=400 $(GO) list -export -trimpath -f '{{""}}' ./cmd/iotax ./cmd/iotax-agent >/dev/null # both at once, with a tenth less CPU time
	rm -f $(AGENTS)/*-*
	for system in $(SYSTEMS); do \
		name=$$(echo $$system | tr / -); at=$(AGENTS)/$$name; \
		GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o $$at ./cmd/iotax-agent || exit 1; \
		gzip -nc $$at >$$at-$$(sha256sum <$$at | cut -c1-64)-$$(($$(wc -c <$$at))).gz && rm $$at || exit 1; \
	done

# make test runs the tests that take a few seconds each, in about ten minutes. make test-all runs all, and looks for races,
# as CI does (long.Test). Packages that measure, or that look at the whole machine, run one by one. Beside them, packages that
# only compute use the CPU time that is left: DISKLESS, which hardly use the disk, beside cmd/iotax, and COMPUTE beside ALONE. Of
# the others, three run at a time, because they wait for guests. The two that take longest begin.
# IOTAX_TEST_REPEATS=1 adds tests that repeat others by other means: Podman, the cluster over SSH.
ALONE = ./internal/doctor ./internal/lab ./internal/leftover ./internal/machine/pod ./internal/object ./internal/probe/... ./internal/workload ./internal/workload/command ./internal/workload/fiojob
COMPUTE = ./internal/generate ./internal/store
DISKLESS = ./fio/... ./stat/... ./internal/bisect ./internal/ingest/... ./internal/plan ./internal/report/... ./internal/rules/... ./internal/run ./internal/statsim/... ./internal/tune ./internal/web
TEST = $(GO) test -timeout 60m $(SHORT) $(TESTFLAGS)
test: SHORT = -short
test: RACE = true
test-all: RACE = $(MAKE) race TESTFLAGS=-vet=off
test-all: kubernetes
test test-all: build
	@scripts/need test
	@bin/iotax kernel --fetch -q >/dev/null
	@status=0; set -x; \
	$(TEST) -p 3 iotax/internal/volume iotax/internal/machine/vm $(or $(filter-out $(shell $(GO) list $(ALONE) $(COMPUTE) $(DISKLESS) ./cmd/iotax),$(shell $(GO) list ./...)),$(error go list names no packages)) || status=1; \
	chrt --idle 0 $(TEST) -p 1 $(DISKLESS) >bin/beside.log 2>&1 & \
	$(TEST) -tags agents ./cmd/iotax || status=1; \
	wait $$! || status=1; cat bin/beside.log; \
	{ nice -n 19 $(TEST) -p 2 $(COMPUTE) && nice -n 19 $(RACE); } >bin/beside.log 2>&1 & \
	$(TEST) -p 1 $(ALONE) || status=1; \
	wait $$! || status=1; cat bin/beside.log; \
	exit $$status

# Tests with real container engines, and tests with a real cluster of one node.
test-containers: export IOTAX_TEST_REPEATS = 1
test-containers: build
	@scripts/need test
	$(GO) test -p 1 -count 1 -timeout 20m $(TESTFLAGS) -run 'Container' ./internal/machine ./internal/machine/container ./cmd/iotax

test-k8s: build kubernetes
	$(GO) test -p 1 -count 1 -timeout 20m $(TESTFLAGS) -run 'TestPods|TestKubernetes' ./internal/machine/pod ./cmd/iotax

# Build Kubernetes once into the user's cache, in a few minutes: no distribution packages the parts of a cluster.
kubernetes:
	@scripts/need test
	@$(GO) run ./internal/testenv/kube/get >/dev/null

# Plain words, and the linters of .golangci.yaml, which include vet, staticcheck and gosec.
lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) test -count=1 -run '^TestPlain' .
	$(GOLANGCI) run ./...

# Packages whose goroutines share memory. The race detector makes code ten times slower and does not see guests and servers.
# The skipped tests depend on speed or memory (TestTenThousandRuns, TestThousandTargets), are about several processes
# (TestKilledWriter, TestKilledBesideWriter, TestTwoProcesses), run for minutes in one goroutine (TestDamaged, TestPackedExactly,
# TestReadersOfParquet, TestDropWorstSimulated, and TestSQLite, whose steps TestPostgres repeats), or run mostly in the browser (TestBrowser).
race:
	CGO_ENABLED=1 $(GO) test -race -p 2 -timeout 30m $(TESTFLAGS) -skip 'TestKilledWriter|TestKilledBesideWriter|TestTwoProcesses|TestDamaged|TestPackedExactly|TestReadersOfParquet|TestTenThousandRuns|TestThousandTargets|TestDropWorstSimulated|TestSQLite$$|TestBrowser$$' ./internal/run ./internal/store ./internal/web ./internal/agent ./internal/machine/agent

# Known vulnerabilities in linked code. It needs a connection to vuln.go.dev, which CI may lack.
vulnerabilities:
	$(GOVULNCHECK) ./...

# All systems of a release, as in .goreleaser.yaml. This only checks that they compile and link, which takes less than two
# thirds of the time without optimisation. This system is optimised, because tests and packages use the same build.
cross: $(addprefix cross/,$(SYSTEMS))
$(addprefix cross/,$(SYSTEMS)): cross/%:
	GOOS=$(*D) GOARCH=$(*F) $(GO) build $(if $(filter-out $(shell $(GO) env GOHOSTOS)/$(shell $(GO) env GOHOSTARCH),$*),-gcflags='all=-N -l') -o /dev/null ./cmd/iotax

# Files of packages other than the program: a manual page for each command, and completions.
package-files:
	rm -rf bin/package
	mkdir -p bin/package/completion
	$(MAKE) package-program
	bin/package/iotax man bin/package/man
	gzip -9n bin/package/man/*.1
	bin/package/iotax completion bash >bin/package/completion/iotax.bash
	bin/package/iotax completion zsh >bin/package/completion/_iotax
	bin/package/iotax completion fish >bin/package/completion/iotax.fish

# The program of packages. BIN=DIR on the command line builds it elsewhere.
BIN = bin
package-program: agents
	$(BUILD) -tags agents -o $(BIN)/package/iotax ./cmd/iotax

# Files in packages have the time of the commit, so that the same commit gives the same bytes.
packages: package-files
	export GOARCH=$$($(GO) env GOARCH) VERSION=$(VERSION) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0); \
	rm -f bin/*.deb bin/*.rpm; \
	for form in deb rpm; do $(NFPM) package -f packaging/nfpm.yaml -p $$form -t bin/ || exit 1; done
	packaging/check $(VERSION) bin/iotax_$(VERSION)*_*.deb bin/iotax-$(VERSION)*.rpm
	cd packaging/sbom && $(GO) build -o /dev/null .
	cd packaging/goreleaser && $(GO) run . $(CURDIR)/.goreleaser.yaml

# Make everything of a release in dist, and check each part: release for a tag, release-snapshot for any commit.
# See docs/dev/release.md. CI does not run it, because goreleaser compiles for many minutes.
release: RELEASE = release --clean
release-snapshot: RELEASE = release --snapshot --clean
release release-snapshot: reproducible
	$(GORELEASER) check
	$(GORELEASER) healthcheck
	$(GORELEASER) $(RELEASE)
	packaging/check-release

# Two builds from two directories, the second with an empty cache, must give the same bytes.
reproducible:
	rm -rf bin/again && mkdir -p bin/again/here bin/again/elsewhere/deeper
	tar -c --exclude=./bin --exclude=./.git . | tar -x -C bin/again/here
	tar -c --exclude=./bin --exclude=./.git . | tar -x -C bin/again/elsewhere/deeper
	cd bin/again/here && $(MAKE) agents && $(BUILD) -tags agents -o ../a ./cmd/iotax
	cd bin/again/elsewhere/deeper && export GOCACHE=$(CURDIR)/bin/again/cache && $(MAKE) agents && $(BUILD) -tags agents -o ../../b ./cmd/iotax
	cmp bin/again/a bin/again/b && rm -rf bin/again

clean:
	rm -rf bin $(AGENTS)
