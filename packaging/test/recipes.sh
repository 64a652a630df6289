#!/usr/bin/env bash
# The recipes of packaging/ by the tools that they are for, each in a room of its own; programs that are built already stand for their build.
# recipes.sh RECIPE DIRECTORY-OF-PROGRAMS, with one of: modules lmod easybuild spack conda. Says SKIPPED where the tool lacks.
set -euo pipefail

[ $# = 2 ] || { echo "usage: recipes.sh modules|lmod|easybuild|spack|conda DIRECTORY-OF-PROGRAMS" >&2; exit 2; }
programs=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
room=$(mktemp -d "${TMPDIR:-/tmp}/getgpu-recipe.XXXXXX")
trap 'rm -rf "$room"' EXIT

skip() { echo "SKIPPED: $*"; exit 0; }
must() { "$@" || { echo "recipes: not so: $*" >&2; exit 1; }; }
# The first of some files that is there, such as a command that is not in PATH.
first() { for file in "$@"; do if [ -x "$file" ]; then echo "$file"; return 0; fi; done; return 1; }
# The first python3 in PATH that has a package.
python_with() { for file in $(type -ap python3); do if "$file" -c "import $1" 2>/dev/null; then echo "$file"; return 0; fi; done; return 1; }
modules_tool() { first /usr/share/modules/libexec/modulecmd.tcl /usr/lib/modulecmd.tcl /usr/libexec/modulecmd.tcl; }

# What a shell has of the module: its program runs, its page is found beside the others', and after `unload` all is as it was.
loads() {
    command=$1
    make --silent install-files programs="$programs" prefix="$room/opt" sysconfdir="$room/etc"
    mkdir -p "$room/modulefiles/getgpu"
    sed "s|^set root .*|set root $room/opt|" packaging/modulefile/getgpu.tcl >"$room/modulefiles/getgpu/0.1.0"
    unset MANPATH LOADEDMODULES _LMFILES_
    export MODULEPATH=$room/modulefiles
    eval "$("$command" bash load getgpu)"
    must [ "${LOADEDMODULES-}" = getgpu/0.1.0 ]
    must [ "$(command -v getgpu)" = "$room/opt/bin/getgpu" ]
    must getgpu --version
    # An empty entry, first or last, stands for the pages that man finds by itself.
    case "$MANPATH" in
    "$room/opt/share/man:" | "$room/opt/share/man::") ;;
    *) must [ "MANPATH=$MANPATH" = as-it-should-be ] ;;
    esac
    must [ -z "${CUDA_VISIBLE_DEVICES-}" ]
    # What `module help` and `module whatis` print goes to standard error, as all that modules tell.
    "$command" bash help getgpu >"$room/help" 2>&1
    must grep -q 'a free MIG device or GPU for every program' "$room/help"
    eval "$("$command" bash unload getgpu)"
    must [ "${PATH#*"$room"}" = "$PATH" ]
    must [ -z "${LOADEDMODULES-}" ]
}

# EasyBuild refuses root, so root becomes somebody else in a user namespace, who has the same files.
easybuild() {
    python=$(python_with easybuild.main) || skip "easybuild is not installed"
    tool=$(modules_tool) || skip "environment-modules is not installed"
    plain=()
    if [ "$(id -u)" = 0 ]; then
        plain=(unshare --user --map-user=1000 --map-group=1000)
        "${plain[@]}" true 2>/dev/null || skip "EasyBuild refuses root, and there are no user namespaces here"
    fi
    mkdir "$room"/{home,sources}
    eb=("${plain[@]}" env "EB_PYTHON=$python" "MODULES_CMD=$tool" "HOME=$room/home" "TMPDIR=$room/home" "PATH=$(dirname "$tool"):$PATH"
        "$(dirname "$python")/eb" --modules-tool=EnvironmentModules --module-syntax=Tcl --prefix="$room/easybuild")
    recipe=$PWD/packaging/easybuild/getgpu-0.1.0.eb
    "${eb[@]}" --check-style "$recipe"
    "${eb[@]}" -D "$recipe"
    # Its own build step, with a cargo that does nothing, so that the archive needs no sources: an installation, its checks and its modulefile.
    tar -czf "$room/sources/getgpu-0.1.0.tar.gz" --transform 's|^|getgpu-0.1.0/|S' Makefile Cargo.toml ./*.md docs common/README.md tests/*.md packaging/README.md packaging/python LICENSE-* etc man completions
    "${eb[@]}" --sourcepath="$room/sources" --filter-deps=Rust --try-amend=buildopts='build CARGO=true' \
        --try-amend=installopts="prefix=%(installdir)s sysconfdir=%(installdir)s/etc programs=$programs" "$recipe"
    must [ -x "$room/easybuild/software/getgpu/0.1.0/bin/cudawrap" ]
    must [ -e "$room/easybuild/modules/all/getgpu/0.1.0" ]
}

case "$1" in
modules)
    tool=$(modules_tool) || skip "environment-modules is not installed"
    loads "$tool"
    ;;
lmod)
    tool=$(first "${LMOD_CMD-}" /usr/share/lmod/lmod/libexec/lmod target/tools/lmod/usr/share/lmod/lmod/libexec/lmod) || skip "Lmod is not installed"
    loads "$tool"
    ;;
easybuild) easybuild ;;
spack)
    # Spack itself is in no registry; this much of what it asks for is style. Every recipe has its `import *`.
    command -v ruff >/dev/null || skip "ruff is not installed"
    ruff check --no-cache --isolated --select E,W,F,I --ignore F403,F405 --line-length 99 \
        --config 'lint.isort.known-first-party=["spack"]' packaging/spack
    ruff format --no-cache --isolated --line-length 99 --diff packaging/spack
    ;;
conda)
    python=$(python_with rattler_build) || skip "py-rattler-build is not installed"
    command -v patchelf >/dev/null || skip "patchelf is not installed"
    "$python" packaging/test/conda.py "$programs" "$room"
    ;;
*) echo "recipes.sh: $1: not a recipe" >&2; exit 2 ;;
esac
echo "recipes: all as it should be"
