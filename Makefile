# make help says what there is.

SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build demo test check quality bench fuzz golden clean help

# A fresh root shell of Debian does not have /usr/local/go/bin in its PATH.
GO ?= $(firstword $(shell command -v go 2>/dev/null) $(wildcard /usr/local/go/bin/go))
# SQLite is C.
export CGO_ENABLED := 1

# urfave/cli's manual pages bring a Markdown parser, which costs each start a millisecond.
TAGS := urfave_cli_no_docs

RECORDINGS := testdata/recordings
FUZZTIME ?= 10s
BENCHTIME ?= 0.5s
BENCHED := ./lfs ./collect ./store ./policy ./gate ./bench

# tools stops with a sentence where a compiler is missing.
define tools
	@test -n "$(GO)" || { echo "make: Go is missing: install Go 1.26 or newer (https://go.dev/dl) and put it into PATH, or say make GO=/path/to/go" >&2; exit 1; }
	@cc="$$($(GO) env CC)"; command -v $${cc%% *} >/dev/null || { echo "make: a C compiler is missing (SQLite is C): install gcc" >&2; exit 1; }
endef

## build: bin/ioguard
build:
	$(tools)
	$(GO) build -trimpath -tags $(TAGS) -o bin/ioguard ./cmd/ioguard

## demo: judge a recorded read storm, ask who it was, and check a recorded node
demo: build
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && set -e && \
	run() { printf '\n$$ %s\n' "$${*//$$dir/TMP}"; "$$@"; } && \
	run bin/ioguard watch --replay $(RECORDINGS)/3_read_storm.tar.zst --db "$$dir/demo.db" && \
	run bin/ioguard top --db "$$dir/demo.db" && \
	run bin/ioguard explain 1301 --db "$$dir/demo.db" && \
	{ run bin/ioguard check --machine testdata/machines/client-link-cut.tar.zst || [ $$? -eq 1 ]; }

## test: check, then all tests
test: check
	$(GO) test -count=1 -timeout 8m ./...

## check: gofmt, go vet, staticcheck
check:
	$(tools)
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$(find . -name '*.go' -not -path './.git/*')) && \
	test -z "$$files" || { echo "make: not as gofmt writes it:" $$files >&2; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

## quality: judge the labelled recordings: who was found, who was wronged, how soon
quality: build
	bin/ioguard policy replay $(RECORDINGS)/*.tar.zst

## bench: benchmarks, then whole programs against cat, awk and a YAML parser
bench: build
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(BENCHED)
	$(GO) build -o bin/bench ./bench
	bin/bench -ioguard bin/ioguard

## fuzz: every fuzz target for FUZZTIME (10s)
fuzz:
	$(tools)
	@set -e; grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' . | sort | while IFS=: read -r file func; do \
		echo "fuzz $$(dirname $$file) $${func#func }"; \
		$(GO) test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x "$$(dirname $$file)"; \
	done

## golden: write the generated documents and golden files anew; look at git diff after it
golden:
	$(tools)
	@grep -rHoE 'flag\.Bool\("(golden|update)"' --include='*_test.go' . | sort -u | { failed=0; while IFS=: read -r file flag; do \
		flag=$${flag#*\"}; $(GO) test -count=1 "$$(dirname $$file)" -"$${flag%\"}" || failed=1; \
	done; exit $$failed; }

## clean: remove what make made
clean:
	rm -rf bin

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
