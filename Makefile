# redlockd: the two commands a newcomer needs are `make run` and `make test`.

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: run build test lint bench soak fuzz tools

run: ## serve on 127.0.0.1:6380 with five masters inside the process
	go run ./cmd/redlockd

build: ## the redlockd binary
	go build -trimpath -o redlockd ./cmd/redlockd

test: tools ## all tests, with the race detector, against real redis-server processes
	go test -race -timeout 20m ./...

lint: ## formatting, vet, staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...

bench: tools ## redlockd, redsync and one single master side by side; a few minutes
	go run ./bench

soak: tools ## three redlockd over the same masters with faults, for SOAK=1m or as long as asked
	REDLOCK_SOAK=$(or $(SOAK),1m) go test -count=1 -timeout 0 -run Soak -v ./cmd/redlockd

fuzz: ## every fuzz target for FUZZ=30s
	@go list ./... | while read -r package; do \
	  go test -list '^Fuzz' $$package | grep '^Fuzz' | while read -r target; do \
	    echo "$$package $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZ),30s) $$package || exit 1; \
	  done || exit 1; \
	done

# The tests start redis-server themselves, on free ports.
tools:
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null || { \
	  echo "redis-server and redis-cli are missing: installing them with the system's package manager"; \
	  if command -v apt-get >/dev/null; then \
	    SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	    $$SUDO apt-get update -qq && $$SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server redis-tools >/dev/null; \
	  elif command -v dnf >/dev/null; then sudo dnf install -y -q redis; \
	  elif command -v brew >/dev/null; then brew install redis; \
	  else echo "no known package manager: install redis-server by hand"; exit 1; fi; }
