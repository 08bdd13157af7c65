# make demo: from a fresh clone to the first table. make test: everything. See README.md.
GO      ?= go
export CGO_ENABLED = 0

.PHONY: demo build test unit lint cross clean

demo: build
	@scripts/need demo
	@bin/iotax kernel --fetch -q >/dev/null
	bin/iotax run quick -o report.html

build:
	$(GO) build -trimpath -ldflags '-s -w' -o bin/iotax ./cmd/iotax

# All tests, those with real guests, servers and browsers included. Packages run one after the
# other: tests that measure must not disturb each other.
test: build
	@scripts/need test
	@bin/iotax kernel --fetch -q >/dev/null
	$(GO) test -p 1 -timeout 20m $(TESTFLAGS) ./...

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.1 ./...

# What builds elsewhere.
cross:
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/iotax
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./cmd/iotax
	GOOS=linux GOARCH=arm64 $(GO) build -o /dev/null ./cmd/iotax

clean:
	rm -rf bin
