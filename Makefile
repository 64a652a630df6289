# Two commands for a newcomer with Rust and a C linker: `make demo` and `make check`. The others are for packagers and for numbers.
# Everything is built by cargo; this file only says what is run and what is installed where.

prefix      = /usr/local
bindir      = $(prefix)/bin
sysconfdir  = /etc
tmpfilesdir = $(prefix)/lib/tmpfiles.d
libdir      = $(prefix)/lib/getgpu
slurmdir    = $(prefix)/share/getgpu/slurm
pythondir   = $(prefix)/share/getgpu/python
docdir      = $(prefix)/share/doc/getgpu
mandir      = $(prefix)/share/man
bashdir     = $(prefix)/share/bash-completion/completions
zshdir      = $(prefix)/share/zsh/site-functions
fishdir     = $(prefix)/share/fish/vendor_completions.d
DESTDIR     =
CARGO       = cargo
INSTALL     = install
# The crates that the programs share, but for getgpu-nvml.
libraries   = $(addprefix -p getgpu-,linux model lock settings cli ask auto choose queue core operate)
# Where the built programs are.
target      = $(or $(CARGO_TARGET_DIR),target)
programs    = $(target)/release
portable    = $(target)/$(arch)-unknown-linux-gnu/release
# For which processor `make portable` builds: x86_64 or aarch64.
arch        = $(shell uname -m)
# That processor, if it is not this machine's.
foreign     = $(filter-out $(shell uname -m),$(arch))
shipped     = -p getgpu -p cudawrap -p libcudawrap -p create-cudawrap

.PHONY: all help build built portable demo check check-changed check-all deny check-gpu torture fuzz asan mutants mutants-sample miri coverage properties soak loops story slurm-load slurm-page slurm-table slurm-starts storms aarch64 budget bench install install-files uninstall uninstall-files stage stage-rpm deb rpm portable-deb portable-rpm deb-only rpm-only dist reproducible versions peers wheel wheel-only clean

all: build

# The targets with two number signs; CONTRIBUTING.md tells of the others.
help:
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

build: ## the programs, into target/release
	$(CARGO) build --release --locked $(shipped)

# For RHEL 8 and everything newer, from any machine: needs cargo-zigbuild and zig. Messages of panics name files; with names below the
# sources, and below cargo's own directory, the programs are the same wherever they are built (tests/reproducible.sh).
home     = $(or $(CARGO_HOME),$(HOME)/.cargo)
nameless = --remap-path-prefix\037%s=/getgpu\037--remap-path-prefix\037%s=/cargo

portable:
	CARGO_ENCODED_RUSTFLAGS="$$(printf -- '$(nameless)' $(call quoted,$(CURDIR)) $(call quoted,$(home)))" \
	    $(CARGO) zigbuild --release --locked --target $(arch)-unknown-linux-gnu.2.28 $(shipped)

# A simulated 8 x A100 node with 56 MIG devices, real processes, real locks; ends non-zero if anything is not as it should be.
demo: ## the main job on a simulated node, no GPU needed
	$(CARGO) build --workspace --locked
	tests/demo/run.sh $(target)/debug

# Most tests wait for something, so that more run at a time than there are processors.
at_once = --test-threads $(if $(TEST_THREADS),$(TEST_THREADS),4)
# The themes that a change is checked with, in 4 minutes on 2 processors, building included; `check-all` has the others too.
themes = device_choice site_policy leases queue listing reservations invocation transparency

# What needs strace, other users, other shells or Python packages runs where they are, and says SKIPPED where not; skipped.sh counts these.
skipped = $(call quoted,$(target)/skipped.log)
# All packages in one call: for each choice of packages cargo builds what they depend on anew. `probe` has C programs alone.
TEST    = SKIPPED_LOG="$$(cd $(call quoted,$(target)) && pwd)/skipped.log" $(CARGO) test --locked --no-fail-fast --workspace --exclude probe

check: ## the tests that need nothing but cargo, 4 minutes
	$(CARGO) build --workspace --locked
	rm -f $(skipped)
	$(TEST) --lib --bins --test plans $(themes:%=--test %) -- $(at_once)
	tests/skipped.sh $(skipped)

# What the crates in use may be, by deny.toml. Whether one of them has a known weakness, too, with CHECKS=; that fetches a database.
CHECKS = bans licenses sources

deny: ## licences, sources and versions of the crates in use
	@$(CARGO) deny --version >/dev/null 2>&1 || { echo 'make deny: needs cargo-deny: cargo install cargo-deny' >&2; exit 1; }
	$(CARGO) deny --locked check $(CHECKS)

# The tests of what has changed since BASE, by default the last commit: named first, since it is run most often.
check-changed: ## the tests of what has changed
	tests/changed.sh

# With APART, a list of themes, all tests but these.
apart = $(filter-out $(APART),$(basename $(notdir $(patsubst %/main.rs,%,$(wildcard */tests/*.rs */tests/*/main.rs tests/suite/tests/*/main.rs)))))

check-all: ## all tests
	$(CARGO) build --workspace --locked
	rm -f $(skipped)
	$(TEST) --lib --bins --examples $(apart:%=--test %) -- $(at_once)
	$(CARGO) test --locked --workspace --doc
	tests/skipped.sh $(skipped)

# The modules of the suite whose tests have a full size.
hard = launches:: lease_lifetime:: lock_attacks:: planted_files:: nvml_hangs:: hostile_library:: busy_or_idle:: drivers::

# On a machine with a driver and a GPU: a table of what was shown there on one device, which it leases, to be sent as an issue. No setting of a
# GPU is changed, but with CHECK=--compute-mode, as root, the compute mode of that device, which is put back.
check-gpu: ## what a real driver and GPU show, to be sent with a report
	$(CARGO) build --workspace --locked
	tests/gpu/check.sh $(target)/debug $(CHECK)

# The tests that have a full size, in it, as root: tests/PROOF.md says what each shows.
torture: ## tests in their full size, as root, some hours
	$(CARGO) build --workspace --locked
	TORTURE=full $(CARGO) test -p getgpu-tests --locked --no-fail-fast --test throughput --test leases --test security --test nvml_faults -- $(hard) --nocapture --test-threads 1
	TORTURE=full $(CARGO) test -p getgpu-tests --locked --no-fail-fast --test error_injection -- --nocapture --test-threads 1
	TORTURE=full $(CARGO) test -p create-cudawrap --locked --no-fail-fast --test toggle --test crash_safety -- --nocapture
	$(CARGO) test --release -p getgpu-lock --locked --lib protocol -- --include-ignored

# Mutated input to what is read in longer formats, FUZZ_SECONDS for each target of tests/fuzz; needs a nightly compiler and cargo-fuzz.
fuzz:
	tests/fuzz/run.sh $${FUZZ_SECONDS:-60}

# Libraries that hang, lie and write noise, with AddressSanitizer in the programs; needs a nightly compiler, takes 4 minutes.
asan:
	tests/asan.sh

# Changes to the pure modules, one at a time, each of which a unit test or a test of plans has to see (.cargo/mutants.toml);
# needs cargo-mutants, takes hours.
mutants: ## changes to pure modules that unit tests must see, hours
	mkdir -p $(target)/mutants/libraries $(target)/mutants/plans $(target)/mutants/programs
	$(CARGO) mutants $(libraries) -p getgpu-nvml --cargo-arg=--lib --no-times -j $${MUTANT_JOBS:-1} -o $(target)/mutants/libraries
	$(CARGO) mutants -p create-cudawrap --cargo-arg=--lib --cargo-arg=--test=plans --no-times -j $${MUTANT_JOBS:-1} -o $(target)/mutants/plans
	$(CARGO) mutants -p getgpu -p cudawrap --cargo-arg=--bins --no-times -j $${MUTANT_JOBS:-1} -o $(target)/mutants/programs

# COUNT changes, drawn by SEED, to the files that meet the system (tests/mutants): the unit tests of the crate and the themes of the
# file have to see each; FIRST goes on where a run was cut off. Needs cargo-mutants, 1 to 2 minutes for each change.
mutants-sample:
	tests/mutants/sample.py $${SEED:-1} $${COUNT:-120} $${FIRST:-0}

# The pure modules and the parsers of raw memory under Miri; needs a nightly compiler with miri and rust-src.
miri:
	tests/miri.sh

# Lines of the products that run in the unit tests, and in the processes of all tests, by crate and file; needs llvm-tools.
coverage:
	tests/coverage.sh

story: ## each function between main and the claim on a device, by gdb
	$(CARGO) build --workspace --locked
	tests/story.sh $(target)/debug

# Random input by proptest, which also knows what the answer has to be: settings, lists, variables, /proc, NVML's answers, names of programs.
properties:
	PROPTEST_CASES=$${PROPTEST_CASES:-1000000} $(CARGO) test --release $(libraries) -p cudawrap -p create-cudawrap --locked --no-fail-fast properties

# The README's first line in loops of LOOP_COUNT programs, in ten ways, of four lengths, idle and under load; an hour, as root.
loops: ## the README's first line in loops, an hour
	$(CARGO) build --workspace --locked
	$(CARGO) test -p getgpu-tests --locked --test throughput -- loops::loops_in_full --nocapture --ignored

# JOBS jobs on a real Slurm whose own plugin finds simulated GPUs, while jobs and daemons are disturbed; as root, 3 to 10 minutes.
slurm-load: ## jobs on a real Slurm, as root
	$(CARGO) build --workspace --locked
	tests/slurm-load/run.sh $(target)/slurm-load $${JOBS:-500} $(target)/debug

# The cluster of etc/slurm/README.md, built from its blocks; what each form of a request comes to in each way, a quarter of an hour; what
# the start of a step costs (release build). All as root.
slurm-page: ## the cluster of etc/slurm/README.md, as root
	$(CARGO) build --workspace --locked
	tests/slurm-load/page.py $(target)/slurm-page $(target)/debug
slurm-table: ## each form of a request to Slurm, as root
	$(CARGO) build --workspace --locked
	tests/slurm-load/table.py $(target)/slurm-table $(target)/debug
slurm-starts: ## what a start costs under Slurm, as root
	$(CARGO) build --release --workspace --locked
	tests/slurm-load/starts.py $(target)/slurm-starts $(target)/release

# Ordinary traffic for SOAK_MINUTES while one disturbance after the other goes on, then target/soak.svg; best as root, with libfaketime.
soak: ## ordinary traffic under disturbances for an hour
	$(CARGO) build --workspace --locked
	SOAK_MINUTES=$${SOAK_MINUTES:-60} $(CARGO) test -p getgpu-tests --locked --test throughput -- soak::a_soak --nocapture --ignored
	docs/soak-picture.py target/soak.csv target/soak.svg

# COUNT trees of programs, queues, and times 400 launches and kills, from SEED on; KIND=trees, queues or launches: only these. The first
# that fails says its seed; a tree also prints a script that runs it again.
storms: ## random trees, queues and launches: SEED, COUNT, KIND
	$(CARGO) build --workspace --locked
	SEED=$${SEED:-1} COUNT=$${COUNT:-200} $(CARGO) test -p getgpu-tests --locked --test throughput -- storms::$(KIND) --nocapture --include-ignored

# The programs of this commit and those of PEER, a tag or a commit that is built then, or a directory of programs, on one lock.
PEER = $(shell git describe --tags --abbrev=0 2>/dev/null)

versions: ## this version beside that of the last tag; PEER=
	$(CARGO) build --workspace --locked
	tests/versions/peer.sh $(target)/debug $(call quoted,$(PEER))

# The same cases for others that start programs on free GPUs, as far as PyPI has them (docs/COMPARISON.md).
peers:
	$(CARGO) build --workspace --locked
	$(CARGO) build --release --locked $(shipped)
	python3 -m venv target/peers
	$(CC) -O2 -o target/peers/client tests/bench/client.c -ldl
	target/peers/bin/pip install -q gpu-gate nvitop gpustat nvidia-ml-py
	target/peers/bin/python tests/peers/run.py

# For a processor that is not at hand: needs Debian's cross compiler and qemu (qemu-user, qemu-system-arm), as root debootstrap too.
aarch64: ## builds for aarch64, tests under qemu, ten minutes
	tests/aarch64/run.sh $(target)

# Instructions of a call as ratios to a minimal C client, against a budget.
budget:
	$(CARGO) build --release --locked -p getgpu -p cudawrap -p sim-nvml
	tests/bench/budget.sh $(target)/release

# The figures of docs/PERFORMANCE.md: ratios in one run to a minimal C client, nvisel, gpustat, a Python pick, and the bare program.
bench: build ## the figures of docs/PERFORMANCE.md
	$(CARGO) build --release --locked --workspace
	tests/bench/tools.sh $(target)/bench-tools
	tests/bench/run.sh $(target)/release $(target)/bench-tools/bin
	tests/bench/bind.sh $(target)/release
	tests/bench/many.sh $(target)/release
	$(target)/release/getgpu-bench-line

# What goes where, once; the packages are made from it. Every path is quoted, whatever is in it: `at` is one below DESTDIR as a word of the shell.
quoted = '$(subst ','\'',$(1))'
at     = $(call quoted,$(DESTDIR)$(1))

# A path of an example is that of this installation.
placed_in = sed -i "s|$(1)|$$(printf '%s' $(call quoted,$(2)) | sed 's/[|&\\]/\\&/g')|g" $(3)
placed    = $(call placed_in,$(1),$(2),$(call at,$(3)))

# It never builds: under sudo there may be no cargo, and nothing of root's is to lie in target.
install: built install-files ## copies what is built; prefix=, DESTDIR=

built:
	@test -x $(call quoted,$(programs)/getgpu) || { echo 'make install: $(programs)/getgpu does not exist: run make first, as the user who has cargo' >&2; exit 1; }

examples  = $(docdir)/examples
pages     = getgpu.1 cudawrap.1 create-cudawrap.1
hooks     = task-prolog prolog epilog health in-use
# In the folders of this repository, so that their links lead from one to the other.
documents = README.md SECURITY.md CHANGELOG.md CONTRIBUTING.md LICENSE-MIT LICENSE-APACHE $(sort $(wildcard docs/*.md)) docs/watch.svg etc/slurm/README.md packaging/README.md packaging/python/README.md common/README.md tests/README.md tests/PROOF.md
python    = LICENSE-APACHE LICENSE-MIT README.md programs.py pyproject.toml $(patsubst packaging/python/%,%,$(sort $(wildcard packaging/python/src/cudawrap/*.py*) packaging/python/src/cudawrap/py.typed))
samples   = etc/config.toml etc/profile.d/getgpu.sh etc/profile.d/cudawrap.sh etc/environment.d/60-cudawrap.conf etc/modulefile/cudawrap.tcl etc/systemd/gpu-app.service etc/systemd/getgpu-monitor.service etc/prometheus/getgpu-alerts.yml etc/prometheus/getgpu-dashboard.json etc/list.schema.json

install-files:
	$(INSTALL) -d $(call at,$(bindir)) $(call at,$(sysconfdir)/getgpu) $(call at,$(tmpfilesdir)) $(call at,$(docdir)) $(call at,$(examples))
	$(INSTALL) -d $(call at,$(mandir)/man1) $(call at,$(mandir)/man5) $(call at,$(bashdir)) $(call at,$(zshdir)) $(call at,$(fishdir))
	$(INSTALL) -m 0755 $(call quoted,$(programs)/getgpu) $(call quoted,$(programs)/create-cudawrap) $(call at,$(bindir)/)
	# 0555: `cp new /path/app` as root writes through the link, and must not be able to destroy cudawrap without meaning to.
	$(INSTALL) -m 0555 $(call quoted,$(programs)/cudawrap) $(call at,$(bindir)/)
	ln -sf create-cudawrap $(call at,$(bindir)/create_cudawrap)
	# Of programs that were built without it, none.
	if [ -e $(call quoted,$(programs)/libcudawrap.so) ]; then $(INSTALL) -d $(call at,$(libdir)) && $(INSTALL) -m 0755 $(call quoted,$(programs)/libcudawrap.so) $(call at,$(libdir)/); fi
	test -e $(call at,$(sysconfdir)/getgpu/config.toml) || $(INSTALL) -m 0644 etc/config.toml $(call at,$(sysconfdir)/getgpu/config.toml)
	$(INSTALL) -m 0644 etc/tmpfiles.d/getgpu.conf $(call at,$(tmpfilesdir)/getgpu.conf)
	$(INSTALL) -m 0644 $(addprefix man/,$(pages)) $(call at,$(mandir)/man1/)
	ln -sf create-cudawrap.1 $(call at,$(mandir)/man1/create_cudawrap.1)
	$(INSTALL) -m 0644 man/getgpu.toml.5 $(call at,$(mandir)/man5/)
	$(INSTALL) -m 0644 completions/bash/* $(call at,$(bashdir)/)
	$(INSTALL) -m 0644 completions/zsh/* $(call at,$(zshdir)/)
	$(INSTALL) -m 0644 completions/fish/* $(call at,$(fishdir)/)
	for file in $(documents); do $(INSTALL) -D -m 0644 "$$file" $(call at,$(docdir))/"$$file" || exit; done
	# What pip makes the Python package of, with the version beside it.
	for file in $(python); do $(INSTALL) -D -m 0644 packaging/python/"$$file" $(call at,$(pythondir))/"$$file" || exit; done
	grep '^version = ' Cargo.toml >$(call at,$(pythondir)/version.toml)
	chmod 0644 $(call at,$(pythondir)/version.toml)
	$(call placed,../../Cargo.toml,version.toml,$(pythondir)/pyproject.toml)
	$(INSTALL) -d $(call at,$(slurmdir))
	$(INSTALL) -m 0755 $(addprefix etc/slurm/,$(hooks)) $(call at,$(slurmdir)/)
	$(INSTALL) -m 0644 etc/slurm/README.md etc/slurm/job_submit.lua $(call at,$(slurmdir)/)
	# Examples only: neither a service nor a login shell takes a device because this is installed.
	$(INSTALL) -m 0644 $(samples) $(call at,$(examples)/)
	$(call placed,/usr/lib/getgpu,$(libdir),$(examples)/60-cudawrap.conf)
	$(call placed,/opt/getgpu/0.1.0,$(prefix),$(examples)/cudawrap.tcl)
	$(call placed,/usr/bin,$(bindir),$(examples)/gpu-app.service)
	$(call placed,/usr/bin,$(bindir),$(examples)/getgpu-monitor.service)
	for page in $(call at,$(slurmdir)/README.md) $(call at,$(docdir)/etc/slurm/README.md); do $(call placed_in,/usr/local/share/getgpu/slurm,$(slurmdir),"$$page") && $(call placed_in,/usr/local/bin,$(bindir),"$$page") || exit; done
	$(call placed,../../docs,$(docdir)/docs,$(slurmdir)/README.md)

# Every wrapped program first gets its name back: without cudawrap its path would not run. If one cannot be, nothing is removed; nor while slurm.conf
# names a hook.
# The settings stay if they were changed; /run/getgpu stays, since running programs hold their leases there.
uninstall: ## unwraps programs, and removes what install has put there
	test -n $(call quoted,$(DESTDIR)) || test ! -x $(call quoted,$(slurmdir)/in-use) || $(call quoted,$(slurmdir)/in-use)
	test -n $(call quoted,$(DESTDIR)) || test ! -x $(call quoted,$(bindir)/create-cudawrap) || $(call quoted,$(bindir)/create-cudawrap) --undo --all
	$(MAKE) --no-print-directory uninstall-files
	@test -n $(call quoted,$(DESTDIR)) || echo 'What root had wrapped has its name back. What other users have wrapped does not start now: mv -T CUDAWRAP_name name'

# These files below a directory.
each  = $(foreach file,$(notdir $(2)),$(call at,$(1)/$(file)))
# Only what is empty by now, since a directory may be shared with others.
tidy  = if [ -d $(call at,$(1)) ]; then rmdir --ignore-fail-on-non-empty $(call at,$(1)); fi

uninstall-files:
	rm -f $(call each,$(bindir),getgpu cudawrap create-cudawrap create_cudawrap) $(call at,$(tmpfilesdir)/getgpu.conf)
	rm -f $(call at,$(libdir)/libcudawrap.so)
	$(call tidy,$(libdir))
	rm -f $(call each,$(mandir)/man1,$(pages) create_cudawrap.1) $(call at,$(mandir)/man5/getgpu.toml.5)
	rm -f $(call each,$(bashdir),$(wildcard completions/bash/*))
	rm -f $(call each,$(zshdir),$(wildcard completions/zsh/*))
	rm -f $(call each,$(fishdir),$(wildcard completions/fish/*))
	rm -f $(call each,$(examples),$(samples)) $(foreach file,$(documents),$(call at,$(docdir)/$(file))) $(call each,$(slurmdir),$(hooks) README.md job_submit.lua)
	$(call tidy,$(examples))
	for folder in docs etc/slurm etc packaging/python packaging common tests; do rmdir --ignore-fail-on-non-empty $(call at,$(docdir))/$$folder 2>/dev/null || :; done
	$(call tidy,$(docdir))
	$(call tidy,$(slurmdir))
	# All of it: pip may have left bytecode there.
	rm -rf $(call at,$(pythondir))
	$(call tidy,$(prefix)/share/getgpu)
	! cmp -s etc/config.toml $(call at,$(sysconfdir)/getgpu/config.toml) || rm -f $(call at,$(sysconfdir)/getgpu/config.toml)
	$(call tidy,$(sysconfdir)/getgpu)

# The tree that .deb and .rpm are made of: `make install` for /usr.
stage:
	rm -rf target/stage
	$(MAKE) --no-print-directory install-files DESTDIR=target/stage prefix=/usr

# rpmbuild and cargo-deb compress the pages by themselves, cargo-generate-rpm does not.
stage-rpm: stage
	find target/stage/usr/share/man -type f -exec gzip -n9 {} +
	rm target/stage/usr/share/man/man1/create_cudawrap.1
	ln -s create-cudawrap.1.gz target/stage/usr/share/man/man1/create_cudawrap.1.gz

# packaging/README.md tells what cargo-deb and cargo-generate-rpm are. DEB and RPM are further options for them.
deb: build ## a Debian package
	$(MAKE) --no-print-directory deb-only

rpm: build ## an rpm package
	$(MAKE) --no-print-directory rpm-only

# The same for glibc 2.28: what a site with older machines installs.
portable-deb: portable
	$(MAKE) --no-print-directory deb-only programs=$(portable) DEB="--variant portable $(foreign:%=--target %-unknown-linux-gnu) $(DEB)"

portable-rpm: portable
	$(MAKE) --no-print-directory rpm-only programs=$(portable) RPM="$(foreign:%=--arch %) $(RPM)"

# Of programs that are built already.
deb-only:
	@$(CARGO) deb --version >/dev/null 2>&1 || { echo 'make deb: needs cargo-deb: cargo install cargo-deb' >&2; exit 1; }
	$(MAKE) --no-print-directory stage zshdir=/usr/share/zsh/vendor-completions
	$(CARGO) deb -p getgpu --no-build --no-strip $(DEB)

rpm-only:
	@$(CARGO) generate-rpm --version >/dev/null 2>&1 || { echo 'make rpm: needs cargo-generate-rpm: cargo install cargo-generate-rpm' >&2; exit 1; }
	$(MAKE) --no-print-directory stage-rpm
	$(CARGO) generate-rpm -p getgpu --payload-compress gzip $(RPM)

# The sources, the crates that they need, what the programs are made of (CycloneDX) and the sums of these, of the commit that is checked
# out, into dist; needs git and Python 3.11.
dist: ## what a release publishes, with checksums
	packaging/dist.sh dist

# Two builds in two directories have the same sums; needs what `portable` needs, and six minutes of a processor.
reproducible:
	tests/reproducible.sh

# The Python package with the programs in it, into target/wheel: for glibc 2.28 and newer where cargo-zigbuild is, else for this machine's
# glibc and newer. pip fetches hatchling, which builds it.
PYTHON   = python3
wheels   = $(target)/wheel
platform = manylinux_$(shell getconf GNU_LIBC_VERSION | tr -c '0-9\n' _ | sed 's/^_*//')_$(shell uname -m)

wheel: ## the Python package with the programs in it
	if command -v cargo-zigbuild >/dev/null; then \
	    $(MAKE) --no-print-directory portable && $(MAKE) --no-print-directory wheel-only programs=$(portable) platform=manylinux_2_28_$(arch); \
	else \
	    echo 'no cargo-zigbuild here: the wheel is for $(platform)'; \
	    $(MAKE) --no-print-directory build wheel-only; \
	fi

wheel-only:
	PYTHONDONTWRITEBYTECODE=1 CUDAWRAP_PROGRAMS="$$(cd $(call quoted,$(programs)) && pwd)" CUDAWRAP_PLATFORM=$(platform) $(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir $(wheels) $(PIP) ./packaging/python

clean:
	$(CARGO) clean
