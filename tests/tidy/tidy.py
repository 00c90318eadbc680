"""The tidy test: tidy.py {c | tree | format | build} ROOT [BUILD]

c       layers, banned calls, function lengths, header comments
tree    file lengths, blanks, unused headers and examples
format  clang-format has nothing to change
build   each .c is in a target, each test has a group and a guard time (BUILD: the build folder)

Prints one line for each violation, as PLACE: WHAT, and exits 1 if there is any. The rules are in rules.py.
"""
import json
import subprocess
import sys

import checks_c
import checks_tree
import source


def violations(what, tree, build):
    if what == "c":
        checks = [check(tree) for check in checks_c.CHECKS]
    elif what == "tree":
        checks = [check(tree) for check in checks_tree.CHECKS]
    elif what == "format":
        checks = [checks_tree.check_format(tree, "clang-format-14")]
    else:
        shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True,
                               check=True)
        checks = [checks_tree.check_compiled(tree, build), checks_tree.check_ctest(json.loads(shown.stdout))]
    return [found for check in checks for found in check]


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("c", "tree", "format", "build"):
        sys.exit(__doc__)
    found = violations(sys.argv[1], source.Tree(sys.argv[2]), sys.argv[3] if len(sys.argv) == 4 else None)
    for line in found:
        print(line)
    print(f"tidy {sys.argv[1]}: {len(found)} violations")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
