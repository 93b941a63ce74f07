# Thirteen commands. All install what is missing (and say what) on a Debian, the Rust toolchain included.
#
#   make run    start the proxy on its embedded defaults: a quick build, or the release program if it is there and current
#   make release  build the release program, target/release/handfast
#   make static  the same without any library: runs on every Linux of this processor, target/…-linux-musl/release/handfast
#   make test   formatting, lints and every test; the last line is the count
#   make bench  beside its peers, on two quiet cores: 25 minutes. WORK=ecdsa for one work, WORK=counts for counts alone
#   make lab    the laboratory at length: how exact its path is, what handshakes cost; tables in target/lab/
#   make trials  faults against Handfast, or against others with ARGS="--proxy haproxy --only backend-resets --mode terminate"
#   make garden  doubtful requests through HTTP mode to fourteen servers, which must agree, and h2spec: FRONT=haproxy or nginx for another front
#   make http-clients  real clients through HTTP mode: curl, Python, Go, Node, Java, gRPC, Chromium; FRONT as above
#   make http-changes  HTTP mode under load while it is reloaded, upgraded and stopped, and a backend dies: no request may be lost
#   make acme   certificates that are ordered, with a certificate authority (Pebble) that is compiled first: needs Go
#   make docs   the documentation as a site: target/docs/index.html
#   make mutants  which faults no test would notice, planted one by one: CRATE=handfast-wire, ARGS="--file …/store.rs"
#
# CARGO_TARGET_DIR is honoured. Variables: CARGO (which cargo); for make run, PROFILE (quick or release).

CARGO ?= cargo
# Where rustup puts its programs; a shell that was open before it was installed does not have it on its path yet.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.PHONY: help run release static test bench docs mutants lab trials garden http-clients http-changes acme

help:
	@sed -n 's/^#   //p' Makefile

run:
	@scripts/install-missing build
	@scripts/install-toolchain
	@CARGO="$(CARGO)" PROFILE="$(PROFILE)" scripts/run

release:
	@scripts/install-missing build
	@scripts/install-toolchain
	@$(CARGO) build --release --locked --bin handfast

static:
	@scripts/install-missing build static
	@scripts/install-toolchain
	@CARGO="$(CARGO)" scripts/static

test:
	@scripts/install-missing build test
	@scripts/install-toolchain
	@scripts/test

acme:
	@scripts/install-missing build test
	@scripts/install-toolchain
	@CARGO="$(CARGO)" scripts/acme

docs:
	@scripts/install-missing build
	@scripts/install-toolchain
	@CARGO="$(CARGO)" scripts/docs

mutants:
	@scripts/install-missing build
	@scripts/install-toolchain
	@scripts/mutants "$(or $(CRATE),handfast-wire)" $(ARGS)

lab:
	@scripts/install-missing build test
	@scripts/install-toolchain
	@scripts/lab

trials:
	@scripts/install-missing build test
	@scripts/install-toolchain
	@$(CARGO) build --release --locked --workspace --bins
	@"$(or $(CARGO_TARGET_DIR),target)/release/handfast-trials" $(ARGS)

garden:
	@scripts/install-missing build garden
	@scripts/install-toolchain
	@[ "$(or $(FRONT),handfast)" != handfast ] || $(CARGO) build --release --locked --bin handfast
	@scripts/garden --front "$(or $(FRONT),handfast)" $(ARGS)
	@scripts/h2spec --front "$(or $(FRONT),handfast)"

http-clients:
	@scripts/install-missing build garden
	@scripts/install-toolchain
	@[ "$(or $(FRONT),handfast)" != handfast ] || $(CARGO) build --release --locked --bin handfast
	@scripts/http-clients --front "$(or $(FRONT),handfast)" $(ARGS)

http-changes:
	@scripts/install-missing build garden
	@scripts/install-toolchain
	@$(CARGO) build --release --locked --bin handfast
	@scripts/http-changes $(ARGS)

bench:
	@scripts/install-missing build bench
	@scripts/install-toolchain
	@bench/run.py
