"""The symbols test: symbols.py BUILD

Every library of the build folder (libweir_*.a) is linked into one program sooner or later. So a name that more than one
file of the library sees begins with weir_, and no two libraries define the same one. Prints each violation; exits 1 if
there is any.
"""
import glob
import os
import sys

import purity

GENERATED = "libweir_proto.a"  # protoc-c chooses these names


def violations(archives):
    owner = {}
    for archive in archives:
        name = os.path.basename(archive)
        for symbol in sorted(purity.global_symbols(archive)):
            if purity.is_sanitizer(symbol):
                continue
            if not symbol.startswith("weir_") and name != GENERATED:
                yield f"{name}: defines {symbol}; make it static, or begin it with weir_"
            if symbol in owner:
                yield f"{name}: defines {symbol}, as {owner[symbol]} does"
            owner.setdefault(symbol, name)


def main():
    archives = sorted(glob.glob(os.path.join(sys.argv[1], "**", "libweir_*.a"), recursive=True))
    found = list(violations(archives))
    for line in found:
        print(line)
    print(f"symbols: {len(archives)} libraries, {len(found)} violations")
    sys.exit(1 if found or not archives else 0)


if __name__ == "__main__":
    main()
