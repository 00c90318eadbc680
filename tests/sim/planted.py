"""Proves that the simulator can fail: planted.py [--all] [--cc CC] [BUG...]

Each patch in bugs/ plants one small, realistic bug in the cores. For each, the patched cores and the simulator are
compiled anew in a temporary folder, and the simulator must find the bug within SEEDS seeds. Without arguments, the bugs
are those of NAMED. A patch that does not apply or compile is an error; so is a simulator that fails without any bug.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUGS = os.path.join(ROOT, "tests", "sim", "bugs")
NAMED = ["count_twice", "release_early", "free_at_apply", "credit_leak", "torn_pull", "lost_resend",
         "seal_without_round", "covered_after_verdict", "leaves_before_finished"]
SEEDS = 500
LIMIT_S = 120  # for one bug's seeds; the real time of a sane simulator is some seconds
LIBRARIES = {"base": "common/base", "protocol": "common/protocol", "ps": "ps", "worker": "worker", "chief": "chief",
             "sim": "tests/sim"}
LEFT_OUT = {"digest.c"}  # needs a library, and the cores do not need it
FLAGS = ["-std=c11", "-O1", "-g", "-D_GNU_SOURCE", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


class Broken(Exception):
    """What keeps a bug from being judged."""


def run(command, limit_s=300):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit_s)


def copy_sources(tree):
    """The sources that the simulator is made of, as in the repository, and an include folder as cmake/weir.cmake
    makes it: one link for each library."""
    os.makedirs(os.path.join(tree, "include"))
    for name, folder in LIBRARIES.items():
        os.makedirs(os.path.join(tree, folder))
        os.symlink(os.path.join(tree, folder), os.path.join(tree, "include", name))
        for path in glob.glob(os.path.join(ROOT, folder, "*.[ch]")):
            if os.path.basename(path) not in LEFT_OUT:
                shutil.copy(path, os.path.join(tree, folder))


def sources(tree):
    found = []
    for folder in LIBRARIES.values():
        found += glob.glob(os.path.join(tree, folder, "*.c"))
    return sorted(os.path.relpath(path, tree) for path in found)


def object_of(tree, source):
    return os.path.join(tree, source.replace("/", "_") + ".o")


def compile_one(cc, tree, source):
    done = run([cc, *FLAGS, "-I", os.path.join(tree, "include"), "-c", os.path.join(tree, source), "-o",
                object_of(tree, source)])
    if done.returncode:
        raise Broken(f"{source} does not compile:\n{done.stderr}")


def link(cc, objects, program):
    done = run([cc, *objects, "-o", program])
    if done.returncode:
        raise Broken(f"does not link:\n{done.stderr}")


def simulate(program, seeds):
    """(True, "") if all seeds pass, or (False, what the first one that does not says)."""
    try:
        done = run([program, "--seed", "1", "--seeds", str(seeds)], LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Broken(f"the simulator was not through with {seeds} seeds after {LIMIT_S} s") from None
    if done.returncode == 0:
        return True, ""
    seed = re.search(r"^seed \d+: .*", done.stdout, re.M)
    if not seed:
        raise Broken(f"the simulator ended with {done.returncode} and named no seed: {done.stderr[-500:]}")
    assertion = re.search(r"[Aa]ssertion.*", done.stderr)
    return False, seed.group(0) + (f" ({assertion.group(0)})" if assertion else "")


def patched_files(patch):
    with open(patch, encoding="utf-8") as file:
        return re.findall(r"^\+\+\+ b/(\S+)", file.read(), re.M)


def judge(cc, base, name, folder):
    """(caught, what was said) for one bug."""
    patch = os.path.join(BUGS, name + ".patch")
    if not os.path.exists(patch):
        raise Broken("there is no such patch")
    tree = os.path.join(folder, name)
    copy_sources(tree)
    done = run(["patch", "-p1", "--batch", "--no-backup-if-mismatch", "-d", tree, "-i", patch])
    if done.returncode:
        raise Broken(f"the patch does not apply:\n{done.stdout}{done.stderr}")
    changed = patched_files(patch)
    if any(path.endswith(".h") for path in changed):
        changed = sources(tree)
    objects = []
    for source in sources(tree):
        if source in changed:
            compile_one(cc, tree, source)
        objects.append(object_of(tree if source in changed else base, source))
    program = os.path.join(tree, "weir-sim")
    link(cc, objects, program)
    passed, said = simulate(program, SEEDS)
    shutil.rmtree(tree)
    return not passed, said


def build_sound(cc, folder, pool):
    """The simulator without a bug: its objects serve all bugs, and it must pass."""
    base = os.path.join(folder, "sound")
    copy_sources(base)
    list(pool.map(lambda source: compile_one(cc, base, source), sources(base)))
    program = os.path.join(base, "weir-sim")
    link(cc, [object_of(base, source) for source in sources(base)], program)
    passed, said = simulate(program, SEEDS)
    if not passed:
        raise Broken(f"the simulator fails without any bug: {said}")
    return base


def judge_all(cc, names, jobs):
    failures = 0
    with tempfile.TemporaryDirectory(prefix="weir-planted-") as folder, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        base = build_sound(cc, folder, pool)
        running = {name: pool.submit(judge, cc, base, name, folder) for name in names}
        for name, future in running.items():
            try:
                caught, said = future.result()
            except Broken as error:
                caught, said = False, f"ERROR: {error}"
            else:
                said = said if caught else f"NOT CAUGHT by {SEEDS} seeds"
            failures += not caught
            print(f"{name:26} {said}", flush=True)
    return failures


def main():
    parser = argparse.ArgumentParser(description="plants bugs in the cores; the simulator must find each")
    parser.add_argument("--all", action="store_true", help="all bugs, not only the named ones")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("bugs", nargs="*")
    args = parser.parse_args()
    there = sorted(os.path.splitext(os.path.basename(path))[0] for path in glob.glob(os.path.join(BUGS, "*.patch")))
    names = args.bugs or (there if args.all else NAMED)
    try:
        failures = judge_all(args.cc, names, args.jobs)
    except Broken as error:
        print(error)
        sys.exit(1)
    print(f"{len(names) - failures} of {len(names)} planted bugs were caught")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
