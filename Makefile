# Two commands for a newcomer with Rust and a C linker: `make demo` and `make check`. The others are for packagers and for numbers.
# Everything is built by cargo; this file only says what is run and what is installed where.

prefix      = /usr/local
bindir      = $(prefix)/bin
sysconfdir  = /etc
tmpfilesdir = $(prefix)/lib/tmpfiles.d
slurmdir    = $(prefix)/share/getgpu/slurm
docdir      = $(prefix)/share/doc/getgpu
DESTDIR     =
CARGO       = cargo
INSTALL     = install

.PHONY: all build demo check torture fuzz soak bench install clean

all: build

build:
	$(CARGO) build --release --locked -p getgpu -p cudawrap -p create-cudawrap

# A simulated 8 x A100 node with 56 MIG devices, real processes, real locks; ends non-zero if anything is not as it should be.
demo:
	$(CARGO) build --workspace --locked
	tests/demo/run.sh target/debug

# All tests. What needs strace, other users, other shells or Python packages runs where they are, and says SKIPPED where not.
check:
	$(CARGO) build --workspace --locked
	$(CARGO) test --workspace --locked --no-fail-fast
	tests/skipped.sh

# The tests that have a full size, in it, as root: tests/PROOF.md says what each shows. About 40 minutes on 2 processors.
torture:
	$(CARGO) build --workspace --locked
	TORTURE=full $(CARGO) test -p getgpu-tests --locked --no-fail-fast --test launches --test lives --test hostile --test sick -- --nocapture --test-threads 1
	TORTURE=full $(CARGO) test -p getgpu-tests --locked --no-fail-fast --test inject -- --nocapture --test-threads 1
	TORTURE=full $(CARGO) test -p create-cudawrap --locked --no-fail-fast --test toggle --test crash --test filesystems --test powercut -- --nocapture
	$(CARGO) test --release -p getgpu-common --locked --lib protocol -- --include-ignored

# Random input to everything that is read: settings, lists, variables, /proc, NVML's answers, names of programs.
fuzz:
	PROPTEST_CASES=$${PROPTEST_CASES:-1000000} $(CARGO) test --release -p getgpu-common -p cudawrap -p create-cudawrap --locked --no-fail-fast properties

# Storm after storm of launches and kills, for SOAK_MINUTES.
soak:
	$(CARGO) build --workspace --locked
	SOAK_MINUTES=$${SOAK_MINUTES:-60} $(CARGO) test -p getgpu-tests --locked --test launches -- --nocapture --ignored

# Figures for the note: instructions and wall-clock ratios against a minimal C client, nvisel and a shell wrapper.
bench: build
	$(CARGO) build --release --locked --workspace
	tests/bench/run.sh target/release
	target/release/getgpu-bench-line

install: build
	$(INSTALL) -d $(DESTDIR)$(bindir) $(DESTDIR)$(sysconfdir)/getgpu $(DESTDIR)$(tmpfilesdir) $(DESTDIR)$(slurmdir) \
		$(DESTDIR)$(docdir)
	$(INSTALL) -m 0755 target/release/getgpu target/release/create-cudawrap $(DESTDIR)$(bindir)/
	# 0555: `cp new /path/app` as root writes through the link, and must not be able to destroy cudawrap without meaning to.
	$(INSTALL) -m 0555 target/release/cudawrap $(DESTDIR)$(bindir)/
	ln -sf create-cudawrap $(DESTDIR)$(bindir)/create_cudawrap
	test -e $(DESTDIR)$(sysconfdir)/getgpu/config.toml || $(INSTALL) -m 0644 etc/config.toml $(DESTDIR)$(sysconfdir)/getgpu/config.toml
	$(INSTALL) -m 0644 etc/tmpfiles.d/getgpu.conf $(DESTDIR)$(tmpfilesdir)/getgpu.conf
	$(INSTALL) -m 0755 etc/slurm/task-prolog etc/slurm/prolog etc/slurm/epilog $(DESTDIR)$(slurmdir)/
	$(INSTALL) -m 0644 etc/slurm/README.md $(DESTDIR)$(slurmdir)/README.md
	$(INSTALL) -m 0644 README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE $(DESTDIR)$(docdir)/

clean:
	$(CARGO) clean
