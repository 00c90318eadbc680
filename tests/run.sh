#!/bin/sh
# Builds weir and runs its tests: sh tests/run.sh [--full] [--only GROUP]... [--no-install]
# Groups are labels of ctest: tidy, unit, conformance, sim, interop, integration in build/, and asan in build-asan/
# (what is labelled unit, conformance or asan, under the address and undefined-behaviour sanitizers). --full adds clang,
# tsan, simfull, clusterfull (every repeat of equal placements; what the example learns with three seeds, as a program
# that is not weir finds) and quickstart. Every group runs, whatever fails before; the exit code is 1 if any test
# failed, and the last line is "N passed, M failed". Set JOBS to use fewer cores than there are.
set -eu

cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
groups="tidy unit conformance sim interop integration asan"
full_groups="clang tsan simfull clusterfull quickstart"
only=
full=
install=yes

say() {
    printf '%s\n' "$*"
}

usage() {
    say "tests/run.sh: $*" >&2
    say "usage: sh tests/run.sh [--full] [--only GROUP]... [--no-install]" >&2
    say "groups: $groups; with --full: $full_groups" >&2
    exit 2
}

is_one_of() {
    word=$1
    shift
    case " $* " in *" $word "*) return 0 ;; esac
    return 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --full) full=yes ;;
    --no-install) install= ;;
    --only)
        [ $# -gt 1 ] || usage "--only needs a group"
        # shellcheck disable=SC2086 # lists of words
        is_one_of "$2" $groups $full_groups || usage "no group \"$2\""
        only="$only $2"
        shift
        ;;
    *) usage "unknown argument \"$1\"" ;;
    esac
    shift
done
[ -z "$full" ] || groups="$groups $full_groups"
[ -z "$only" ] || groups=$only

passed=0
failed=0
table=
logs=build-logs
mkdir -p "$logs"

# Adds a group's line to the table: record GROUP PASSED FAILED SKIPPED SECONDS
record() {
    passed=$((passed + $2))
    failed=$((failed + $3))
    skipped=
    [ "$4" = 0 ] || skipped=", $4 skipped"
    line=$(printf '%-12s %4d passed, %3d failed%s, %d s' "$1" "$2" "$3" "$skipped" "$5")
    table="$table$line
"
    say "$line"
}

# Configures and builds a preset, once: build PRESET. Its output is shown only if it fails.
built=
build() {
    # shellcheck disable=SC2086
    is_one_of "$1" $built && return 0
    log=$logs/build-$1.log
    start=$(date +%s)
    folder=build
    [ "$1" = release ] || folder=build-$1
    if cmake --preset "$1" -DWEIR_TESTS=ON >"$log" 2>&1 && cmake --build "$folder" -j "$jobs" >>"$log" 2>&1; then
        built="$built $1"
        say "built $1 in $(($(date +%s) - start)) s"
    else
        grep -E -A 8 'error|Error|FAILED' "$log" | tail -n 60
        say "the $1 build failed; all it said is in $log"
        return 1
    fi
}

# One number of a JUnit file's head, as ctest writes it: junit FILE tests|failures|skipped
junit() {
    sed -n "s/^[[:space:]]*$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1
}

# Runs the tests that carry a label: labelled GROUP PRESET LABELS JOBS. The time is theirs, without the build's.
labelled() {
    if ! build "$2"; then
        record "$1" 0 1 0 0
        return
    fi
    start=$(date +%s)
    folder=build
    [ "$2" = release ] || folder=build-$2
    log=$PWD/$logs/$1.log
    xml=$PWD/$logs/$1.xml
    rm -f "$xml"
    status=0
    ctest --test-dir "$folder" -L "$3" -j "$4" --output-on-failure --no-tests=ignore --output-junit "$xml" \
        >"$log" 2>&1 || status=$?
    total=$(junit "$xml" tests)
    bad=$(junit "$xml" failures)
    skip=$(junit "$xml" skipped)
    bad=${bad:-0}
    skip=${skip:-0}
    if [ $status != 0 ] && [ "$bad" = 0 ]; then
        bad=1 # a test that ctest could not even start
    fi
    if [ $status != 0 ]; then
        grep -v -E '^ *[0-9]+/[0-9]+ Test .* Passed|^ +Start ' "$log" | tail -n 150
        say "all that group $1 said is in $log"
    fi
    good=$((${total:-0} - bad - skip))
    [ $good -ge 0 ] || good=0
    record "$1" $good "$bad" "$skip" $(($(date +%s) - start))
}

# The two commands of the README, and what they promise: the example reaches 0.88 on the validation set.
quickstart() {
    start=$(date +%s)
    summary=$PWD/$logs/quickstart.json
    rm -f "$summary"
    good_enough='import json, sys; sys.exit(json.load(open(sys.argv[1]))["validation"]["accuracy"] < 0.88)'
    if sh deploy/quickstart.sh --summary "$summary" >"$logs/quickstart.log" 2>&1 &&
        /usr/bin/python3 -c "$good_enough" "$summary"; then
        record quickstart 1 0 0 $(($(date +%s) - start))
    else
        tail -n 40 "$logs/quickstart.log"
        record quickstart 0 1 0 $(($(date +%s) - start))
    fi
}

run_group() {
    case $1 in
    # Tests of one process use all cores; those that start clusters run one at a time, so that their figures hold.
    tidy | unit | conformance | sim) labelled "$1" release "^$1\$" "$jobs" ;;
    interop | integration | simfull | clusterfull) labelled "$1" release "^$1\$" 1 ;;
    asan) labelled asan asan '^(unit|conformance|asan)$' "$jobs" ;;
    clang) labelled clang clang '^unit$' "$jobs" ;;
    tsan) labelled tsan tsan '^(unit|tsan)$' "$jobs" ;;
    quickstart) quickstart ;;
    esac
}

begin=$(date +%s)
if [ -n "$install" ]; then
    lists="build run test"
    case " $groups " in *" clang "*) lists="$lists full" ;; esac
    # shellcheck disable=SC2086
    sh deploy/install.sh $lists || {
        say "0 passed, 1 failed"
        exit 1
    }
fi
for group in $groups; do
    run_group "$group"
done
say "----"
printf '%s' "$table"
say "total $(($(date +%s) - begin)) s"
say "$passed passed, $failed failed"
[ "$failed" = 0 ]
