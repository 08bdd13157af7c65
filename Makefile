# make demo: from a fresh clone to the first table. make test: most tests. make test-all: everything. See README.md.
GO      ?= go
export CGO_ENABLED = 0

# What the program says that it was built from; sources without their repository say nothing.
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)$(shell test -z "$$(git status --porcelain 2>/dev/null | head -c 1)" || echo +dirty)
# What make packages and a release are called; 0.0.0 is none.
VERSION ?= 0.0.0
# The same sources give the same bytes: no paths, and no stamp of Go's own, which holds times.
BUILD = $(GO) build -buildvcs=false -trimpath -ldflags '-s -w -X main.builtFrom=$(COMMIT)$(if $(filter-out 0.0.0,$(VERSION)), -X main.release=$(VERSION))'

# Tools that are built for their one use. What comes with the sources is pinned by go.sum.
GOLANGCI ?= $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK ?= $(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0
GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.14.1
NFPM ?= $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.2

# What a release is built for.
SYSTEMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: agents release release-snapshot package-files package-program packages reproducible demo build test test-all test-containers test-k8s kubernetes race lint vulnerabilities cross $(addprefix cross/,$(SYSTEMS)) clean

demo: build
	@scripts/need demo
	bin/iotax demo

build:
	$(BUILD) -o bin/iotax ./cmd/iotax

# What releases and packages carry for other machines: iotax-agent for each of SYSTEMS. The program that embeds them is built with
# -tags agents. See internal/agent/program.go.
AGENTS = internal/agent/agents
agents:
	rm -rf $(AGENTS) && mkdir -p $(AGENTS)
	for system in $(SYSTEMS); do \
		name=$$(echo $$system | tr / -); at=$(AGENTS)/$$name; \
		GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o $$at ./cmd/iotax-agent || exit 1; \
		gzip -9nc $$at >$$at-$$(sha256sum <$$at | cut -c1-64)-$$(($$(wc -c <$$at))).gz && rm $$at || exit 1; \
	done

# make test: the tests that take a few seconds each, in some ten minutes. make test-all: all of them, as CI does (slow.Test).
# Packages that measure, or look at what there is on the whole machine, run one after the other with nothing beside them; of all
# others two at the same moment. IOTAX_TEST_REPEATS=1 adds what repeats other tests by other means: Podman, the cluster over SSH.
ALONE = ./cmd/iotax ./internal/doctor ./fio ./internal/lab ./internal/leftover ./internal/machine ./internal/machine/pod ./internal/machine/vm ./internal/object ./internal/probe/... ./internal/report/html ./internal/report/output ./internal/run ./internal/store ./internal/volume ./internal/web ./internal/workload ./internal/workload/command ./internal/workload/fiojob
test: SHORT = -short
test-all: kubernetes
test test-all: build
	@scripts/need test
	@bin/iotax kernel --fetch -q >/dev/null
	$(GO) test -p 2 -timeout 60m $(SHORT) $(TESTFLAGS) $(or $(filter-out $(shell $(GO) list $(ALONE)),$(shell $(GO) list ./...)),$(error go list names no packages)); others=$$?; \
	$(GO) test -p 1 -timeout 60m $(SHORT) $(TESTFLAGS) $(ALONE) && exit $$others

# Those with real container engines, and those with a real cluster of one node.
test-containers: export IOTAX_TEST_REPEATS = 1
test-containers: build
	@scripts/need test
	$(GO) test -p 1 -count 1 -timeout 20m $(TESTFLAGS) -run 'Container' ./internal/machine ./internal/machine/container ./cmd/iotax

test-k8s: build kubernetes
	$(GO) test -p 1 -count 1 -timeout 20m $(TESTFLAGS) -run 'TestPods|TestKubernetes' ./internal/machine/pod ./cmd/iotax

# Kubernetes is built once, in some minutes, into the user's cache: nobody packages the parts that a cluster needs.
kubernetes:
	@scripts/need test
	@$(GO) run ./internal/testenv/kube/get >/dev/null

# The words of english.md, and the checks of .golangci.yaml, vet, staticcheck and gosec among them.
lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) test -count=1 -run '^TestPlain' .
	$(GOLANGCI) run ./...

# Where goroutines share memory. Guests and servers are left out: what runs in them is not seen, and all is ten times as slow.
# What is skipped there needs the usual speed and memory: TestKilledWriter kills at times, TestTenThousandRuns and
# TestThousandTargets measure, TestDamagedValues reads a store thousands of times. Most of TestBrowser happens in the browser; TestBrowserLive stays.
race:
	CGO_ENABLED=1 $(GO) test -race -p 2 -timeout 10m $(TESTFLAGS) -skip 'TestKilledWriter|TestDamagedValues|TestTenThousandRuns|TestThousandTargets|TestBrowser$$' ./internal/run ./internal/store ./internal/web ./internal/agent ./internal/machine/agent

# Known vulnerabilities in what is linked. It asks vuln.go.dev: not where CI has no way there.
vulnerabilities:
	$(GOVULNCHECK) ./...

# All that a release has: .goreleaser.yaml names the same. What is asked is whether they compile and link; without
# optimising that takes less than two thirds of the time. This system's own is the one that tests and packages have.
cross: $(addprefix cross/,$(SYSTEMS))
$(addprefix cross/,$(SYSTEMS)): cross/%:
	GOOS=$(*D) GOARCH=$(*F) $(GO) build $(if $(filter-out $(shell $(GO) env GOHOSTOS)/$(shell $(GO) env GOHOSTARCH),$*),-gcflags='all=-N -l') -o /dev/null ./cmd/iotax

# What packages hold beside the program: a manual page for each command, completions.
package-files:
	rm -rf bin/package
	mkdir -p bin/package/completion
	$(MAKE) package-program
	bin/package/iotax man bin/package/man
	gzip -9n bin/package/man/*.1
	bin/package/iotax completion bash >bin/package/completion/iotax.bash
	bin/package/iotax completion zsh >bin/package/completion/_iotax
	bin/package/iotax completion fish >bin/package/completion/iotax.fish

# The program as packages have it. BIN is given on the command line by those who want it elsewhere.
BIN = bin
package-program: agents
	$(BUILD) -tags agents -o $(BIN)/package/iotax ./cmd/iotax

# The files in them have the time of the commit, so that the same commit gives the same bytes.
packages: package-files
	export GOARCH=$$($(GO) env GOARCH) VERSION=$(VERSION) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 0); \
	rm -f bin/*.deb bin/*.rpm; \
	for form in deb rpm; do $(NFPM) package -f packaging/nfpm.yaml -p $$form -t bin/ || exit 1; done
	packaging/check $(VERSION) bin/iotax_$(VERSION)*_*.deb bin/iotax-$(VERSION)*.rpm
	cd packaging/sbom && $(GO) build -o /dev/null .
	cd packaging/goreleaser && $(GO) run . $(CURDIR)/.goreleaser.yaml

# All that a release has, in dist, and a look at each part of it: of the tag that is checked out, and of a commit without one.
# docs/dev/release.md has what came of it. Not in CI: goreleaser alone compiles for many minutes.
release: RELEASE = release --clean
release-snapshot: RELEASE = release --snapshot --clean
release release-snapshot: reproducible
	$(GORELEASER) check
	$(GORELEASER) healthcheck
	$(GORELEASER) $(RELEASE)
	packaging/check-release

# Two builds from two directories, the second of which finds nothing that was compiled before, must be the same bytes.
reproducible:
	rm -rf bin/again && mkdir -p bin/again/here bin/again/elsewhere/deeper
	tar -c --exclude=./bin --exclude=./.git . | tar -x -C bin/again/here
	tar -c --exclude=./bin --exclude=./.git . | tar -x -C bin/again/elsewhere/deeper
	cd bin/again/here && $(MAKE) agents && $(BUILD) -tags agents -o ../a ./cmd/iotax
	cd bin/again/elsewhere/deeper && export GOCACHE=$(CURDIR)/bin/again/cache && $(MAKE) agents && $(BUILD) -tags agents -o ../../b ./cmd/iotax
	cmp bin/again/a bin/again/b && rm -rf bin/again

clean:
	rm -rf bin $(AGENTS)
