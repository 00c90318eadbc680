"""Checks of the tree: lengths, blanks, files that nobody uses, and what the build and ctest know."""
import ast
import json
import os
import re
import subprocess

import rules
import source

CODE = (".c", ".h", ".py", ".sh", ".cu", ".cuh")
TEXT = CODE + (".md", ".proto", ".cmake", ".txt", ".json")


def check_lengths(tree):
    for path in tree.having(*CODE):
        lines = tree.files[path].split("\n")
        count = len(lines) - (lines[-1] == "")
        if count >= rules.FILE_LINES:
            yield f"{path}:1: {count} lines; fewer than {rules.FILE_LINES}"
        for number, line in enumerate(lines, 1):
            if len(line) > rules.LINE_COLUMNS:
                yield f"{path}:{number}: {len(line)} columns; at most {rules.LINE_COLUMNS}"


def check_blanks(tree):
    for path in tree.having(*TEXT):
        text = tree.files[path]
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield f"{path}:{number}: blanks at the end of the line"
            if "\t" in line and path.endswith(CODE):
                yield f"{path}:{number}: a tab; indent with spaces"
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            yield f"{path}:{text.count(chr(10)) + 1}: a file ends with one newline"


def python_functions(text):
    """(first line, number of lines) of each function, without decorators; nothing for what does not parse."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1


def shell_functions(text):
    start = None
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"^\w+\(\) \{", line):
            start = number
        elif line == "}" and start is not None:
            yield start, number - start + 1
            start = None


def check_script_functions(tree):
    for path in tree.having(".py", ".sh"):
        try:
            found = list((python_functions if path.endswith(".py") else shell_functions)(tree.files[path]))
        except SyntaxError as error:
            yield f"{path}:{error.lineno}: {error.msg}"
            continue
        for first, lines in found:
            if lines > rules.FUNCTION_LINES:
                yield f"{path}:{first}: a function of {lines} lines; at most {rules.FUNCTION_LINES}"


def check_unused_headers(tree):
    included = {}
    for path in tree.having(".c", ".h", ".cu", ".cuh"):
        for _, _, header in source.includes(tree.files[path]):
            included.setdefault(header, set()).add(path)
    folders = source.libraries(tree)
    for path in tree.having(".h"):
        library = source.library_of(path, folders)
        names = {os.path.basename(path)}
        if library:
            names.add(library + "/" + path[len(folders[library]):])
        users = set().union(*(included.get(name, set()) for name in names)) - {path}
        if not users:
            yield f"{path}:1: nobody includes this header"


def check_unused_examples(tree):
    """An example runs as it stands: a test, a script or a page names it."""
    texts = [text for path, text in tree.files.items()
             if path.startswith(("tests/", "docs/", "deploy/", ".ci/")) or path == "README.md"]
    for folder in sorted({"/".join(path.split("/")[:2]) for path in tree.files
                          if path.startswith("examples/") and path.count("/") >= 2}):
        if not any(folder in text for text in texts):
            yield f"{folder}: no test, script or page names this example"


def check_private_paths(tree):
    """Nothing may name a folder that only the machine of its author has."""
    private = re.compile("/" + r"(?:work|root|home/[a-z]+)/[\w.-]")
    for path, text in sorted(tree.files.items()):
        for number, line in enumerate(text.split("\n"), 1):
            if private.search(line):
                yield f"{path}:{number}: names a folder of its author's machine"


def check_compiled(tree, build):
    """Each .c is in a target. The build's own list decides; a file that only some builds compile is named in the
    CMakeLists.txt of its folder or of one above."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        compiled = {os.path.realpath(entry["file"]) for entry in json.load(file)}
    for path in tree.having(".c"):
        if os.path.realpath(os.path.join(tree.root, path)) in compiled:
            continue
        if not named_by_build(tree, path):
            yield f"{path}:1: in no target; remove it, or name it in its folder's CMakeLists.txt"


def named_by_build(tree, path):
    folder = os.path.dirname(path)
    while folder:
        text = tree.files.get(folder + "/CMakeLists.txt", "")
        if re.search(r"(?<![\w-])" + re.escape(os.path.basename(path)), text):
            return True
        folder = os.path.dirname(folder)
    return False


def check_ctest(shown):
    """`shown` is what `ctest --show-only=json-v1` says: each test has one group and a guard time."""
    for test in shown["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        groups = rules.TEST_GROUPS & set(properties.get("LABELS", []))
        if len(groups) != 1:
            yield f"ctest {test['name']}: labels {properties.get('LABELS', [])}; exactly one of " \
                  f"{', '.join(sorted(rules.TEST_GROUPS))}"
        if not 0 < properties.get("TIMEOUT", 0) <= 3600:
            yield f"ctest {test['name']}: no TIMEOUT"


def check_format(tree, tool):
    """What clang-format would change; one line for each place."""
    paths = [os.path.join(tree.root, path) for path in tree.having(".c", ".h")]
    if not paths:
        return
    done = subprocess.run([tool, "--style=file", "--dry-run", "-Werror", *paths], capture_output=True, text=True)
    for line in done.stderr.split("\n"):
        match = re.match(r"(.*?):(\d+):\d+: error: code should be clang-formatted", line)
        if match:
            yield f"{os.path.relpath(match.group(1), tree.root)}:{match.group(2)}: not as {tool} has it"
    if done.returncode and "clang-formatted" not in done.stderr:
        yield f"{tool}: {done.stderr.strip() or done.returncode}"


CHECKS = [check_lengths, check_blanks, check_script_functions, check_unused_headers, check_unused_examples,
          check_private_paths]
