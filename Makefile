# redlockd: the two commands a newcomer needs are `make run` and `make test`.

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
BENCHSTAT = go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

.PHONY: run build test test-bench test-long lint bench bench-full bench-libraries benchmarks scenarios soak fuzz tools libraries

run: ## serve on 127.0.0.1:6380 with five masters inside the process
	go run ./cmd/redlockd

build: ## the redlockd binary
	go build -trimpath -o redlockd ./cmd/redlockd

# The tests of the engine that the race detector sees a few cases of, or nothing: redlock/raced_test.go.
LONG = TestSimulation|TestMutants|Model$$|TestOverloadSlowsDown|TestSeveralAreGranted|TestStepIsCaught|TestUndoSpares|TestPanicLoses

test: tools libraries ## all tests with the race detector, against real redis-server processes; then the long ones of the engine without it
	REDLOCK_TEST_TOOLS=all go test -race -timeout 20m ./...
	@$(MAKE) --no-print-directory -j2 test-bench test-long

test-bench: ## the tests of the bench
	cd bench && REDLOCK_TEST_TOOLS=all go test -race -timeout 20m ./...

test-long: ## mutants, models, SEEDS=200 of the simulation, and all cases of the long tests
	REDLOCK_TEST_TOOLS=all REDLOCK_SIM_SEEDS=$(or $(SEEDS),200) go test -count=1 -timeout 20m -run '$(LONG)' ./redlock

lint: ## formatting, vet, staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	cd bench && go vet ./... && $(STATICCHECK) ./...

bench: tools ## redlockd, redsync and one single master side by side; a few minutes
	go run -C bench .

bench-libraries: ## what the scenario libraries of the bench loads, beside what Go has
	@cmd/redlockd/testdata/libraries/build.sh node python

bench-full: tools bench-libraries ## every scenario, every peer, into bench/results, which README shows; twenty minutes on an idle machine. Needs etcd (Debian: apt install etcd-server)
	go run -C bench . --full --out results

# Ten times each is what benchstat wants for its intervals. Shorter: make benchmarks BENCH=Guard PACKAGES=./proxy
benchmarks: ## the hot path piece by piece, with allocations, into bench/new.bench; OLD=file compares with an earlier run
	go test -run '^$$' -bench '$(or $(BENCH),.)' -skip IdleConnections -benchmem -benchtime 200ms -count $(or $(COUNT),10) -timeout 60m \
	  $(or $(PACKAGES),./redlock ./proxy) >bench/new.bench || { cat bench/new.bench; exit 1; }
	$(BENCHSTAT) $(if $(OLD),$(OLD) bench/new.bench,bench/new.bench)

scenarios: tools ## what redlockd, redsync and node-redlock (if npm is there) make of the same faults; prints README's table
	@! command -v npm >/dev/null || npm ci --silent --prefix redlock/testdata/node-redlock
	REDLOCK_PEERS=$(or $(TRIALS),10) go test -count=1 -timeout 0 -run PeerScenarios -v ./redlock

soak: tools ## three redlockd over the same masters with faults, for SOAK=1m or as long as asked
	REDLOCK_SOAK=$(or $(SOAK),1m) go test -count=1 -timeout 0 -run Soak -v ./cmd/redlockd

fuzz: ## every fuzz target for FUZZ=30s, and 100 000 random Lua programs against redis-server
	PROGRAMS_SEED=random PROGRAMS=100000 go test ./redlock/sandbox -run '^TestPrograms$$' -count=1 -timeout 20m
	@go list ./... | while read -r package; do \
	  go test -list '^Fuzz' $$package | grep '^Fuzz' | while read -r target; do \
	    echo "$$package $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZ),30s) $$package || exit 1; \
	  done || exit 1; \
	done

# The tests start redis-server themselves, on free ports; step its clock with a small C library; and check a model with spin.
tools:
	@missing=; for tool in redis-server redis-cli redis-benchmark gcc spin; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	[ -z "$$missing" ] || { \
	  echo "missing:$$missing; installing with the system's package manager"; \
	  sudo=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  if command -v apt-get >/dev/null; then \
	    $$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	      redis-server redis-tools gcc libc6-dev spin >/dev/null; \
	  elif command -v dnf >/dev/null; then $$sudo dnf install -y -q redis gcc glibc-devel spin; \
	  elif command -v brew >/dev/null; then brew install redis gcc spin; \
	  else echo "no known package manager: install them by hand"; exit 1; fi; }

libraries: ## programs with lock libraries of other people, in many languages: the tests run them against redlockd
	@cmd/redlockd/testdata/libraries/build.sh
