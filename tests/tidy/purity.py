"""The purity test: purity.py LIBRARY.a...

The pure libraries (protocol, ps, worker, chief) do no I/O, read no clock, start no threads, allocate nothing and keep
no state of their own: whatever they know, the caller's structures hold. So their objects may call only each other and
the few functions of rules.py, and have no writable data. Prints each violation; exits 1 if there is any.
"""
import re
import subprocess
import sys

import rules


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def defined_symbols(archive):
    return {line.split()[2] for line in run("nm", "--defined-only", archive).split("\n") if len(line.split()) == 3}


def global_symbols(archive):
    """What an archive's objects define for others (upper-case letters of nm)."""
    return {line.split()[2] for line in run("nm", "--defined-only", "--extern-only", archive).split("\n")
            if len(line.split()) == 3}


def undefined_symbols(archive):
    """(object file, symbol) of everything that an archive's objects expect from elsewhere."""
    object_file = archive
    for line in run("nm", "-u", archive).split("\n"):
        if line.endswith(":"):
            object_file = line[:-1]
        elif line.strip().startswith("U "):
            yield object_file, line.split()[1]


def writable_data(archive):
    """(object file, symbol) of every variable that can change. Constant tables of pointers (.data.rel.ro) can't."""
    object_file = archive
    for line in run("objdump", "-t", archive).split("\n"):
        match = re.match(r"(\S+):\s+file format", line)
        if match:
            object_file = match.group(1)
        match = re.match(r"[0-9a-f]+ .{7} (\.(?:t?bss|t?data)(?:\.(?!rel\.ro)\S+)?|\*COM\*)\s+[0-9a-f]+ +(\S+)", line)
        if match and match.group(2) != match.group(1) and not is_sanitizer(match.group(2)):
            yield object_file, match.group(2)


def is_sanitizer(symbol):
    return re.match(rules.SANITIZER_SYMBOLS, symbol, re.I) is not None


def allowed(symbol, pure):
    return (symbol in rules.PURE_SYMBOLS or symbol in pure or symbol.startswith(rules.PURE_SYMBOL_PREFIXES)
            or is_sanitizer(symbol))


def violations(archives):
    pure = set().union(*(defined_symbols(archive) for archive in archives)) if archives else set()
    for archive in archives:
        name = archive.rsplit("/", 1)[-1]
        for object_file, symbol in undefined_symbols(archive):
            if not allowed(symbol, pure):
                yield f"{name}({object_file}): calls {symbol}, which is not pure"
        for object_file, symbol in writable_data(archive):
            yield f"{name}({object_file}): has the variable {symbol}; state belongs to the caller"


def main():
    archives = sys.argv[1:]
    found = list(violations(archives))
    for line in found:
        print(line)
    print(f"purity: {len(archives)} libraries, {len(found)} violations")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
