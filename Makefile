# make demo: from a fresh clone to the first table. make test: everything. See README.md.
GO      ?= go
export CGO_ENABLED = 0

.PHONY: package-files packages reproducible demo build test test-containers test-k8s kubernetes unit lint cross clean

demo: build
	@scripts/need demo
	@bin/iotax kernel --fetch -q >/dev/null
	bin/iotax run quick -o report.html

build:
	$(GO) build -trimpath -ldflags '-s -w' -o bin/iotax ./cmd/iotax

# All tests, those with real guests, servers and browsers included. Packages run one after the
# other: tests that measure must not disturb each other.
test: build kubernetes
	@bin/iotax kernel --fetch -q >/dev/null
	$(GO) test -p 1 -timeout 20m $(TESTFLAGS) ./...

# Those with real container engines, and those with a real cluster of one node.
test-containers: build
	@scripts/need test
	$(GO) test -p 1 -count 1 -timeout 20m $(TESTFLAGS) -run 'Container' ./machine ./cmd/iotax

test-k8s: build kubernetes
	$(GO) test -p 1 -count 1 -timeout 20m $(TESTFLAGS) -run 'TestTold|TestPods|TestKubernetes' ./machine/execx ./machine ./cmd/iotax

# Kubernetes is built once, in some minutes, into the user's cache: nobody packages the parts that a cluster needs.
kubernetes:
	@scripts/need test
	@$(GO) run ./lab/kube/get >/dev/null

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.1 ./...

# What builds elsewhere.
cross:
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/iotax
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/iotax
	GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/iotax

# What packages hold beside the program: a manual page for each command, completions.
package-files:
	rm -rf bin/package
	mkdir -p bin/package/completion
	$(GO) build -trimpath -ldflags '-s -w' -o bin/package/iotax ./cmd/iotax
	bin/package/iotax man bin/package/man
	gzip -9n bin/package/man/*.1
	bin/package/iotax completion bash >bin/package/completion/iotax.bash
	bin/package/iotax completion zsh >bin/package/completion/_iotax
	bin/package/iotax completion fish >bin/package/completion/iotax.fish

VERSION ?= 0.0.0
NFPM ?= $(GO) run github.com/goreleaser/nfpm/v2/cmd/nfpm@latest
packages: package-files
	GOARCH=$$($(GO) env GOARCH) VERSION=$(VERSION) $(NFPM) package -f packaging/nfpm.yaml -p deb -t bin/
	GOARCH=$$($(GO) env GOARCH) VERSION=$(VERSION) $(NFPM) package -f packaging/nfpm.yaml -p rpm -t bin/

# Two builds from two directories must be the same bytes.
reproducible:
	rm -rf bin/again && mkdir -p bin/again/src
	git archive HEAD | tar -x -C bin/again/src
	git archive HEAD | (mkdir bin/again/other && tar -x -C bin/again/other)
	cd bin/again/src && $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o ../a ./cmd/iotax
	cd bin/again/other && $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o ../b ./cmd/iotax
	cmp bin/again/a bin/again/b && rm -rf bin/again

clean:
	rm -rf bin
