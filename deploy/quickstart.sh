#!/bin/sh
# From a fresh Debian 12 to a trained model: sh deploy/quickstart.sh [JOB] [OPTIONS of `weir run`]
# Installs packages, builds weir into build/, and trains the example (or JOB) on this machine: a chief, two parameter
# servers and two workers. The options go to `weir run`, after these defaults.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
job=$root/examples/fashion_mnist/job.json
case "${1:-}" in
'' | -*) ;;
*)
    job=$(realpath "$1")
    shift
    ;;
esac
cd "$root"

step() {
    echo "quickstart: $*" >&2
}

step "1/3 packages"
sh deploy/install.sh build run
log=build-logs/quickstart-build.log
mkdir -p build-logs
step "2/3 build, into build/"
# Tests are left out here: they need packages that training does not. tests/run.sh turns them on.
cmake --preset release -DWEIR_TESTS=OFF >"$log" 2>&1 && cmake --build build --target weir >>"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    step "the build failed; all it said is in $log"
    exit 1
}
step "3/3 build/weir run $job --ps 2 --workers 2 $*"
exec build/weir run "$job" --ps 2 --workers 2 "$@"
