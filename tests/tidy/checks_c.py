"""Checks of C: includes, banned calls, the shape of functions and headers."""
import re

import rules
import source


def rank_of(library):
    for rank, row in enumerate(rules.LAYERS):
        if library in row:
            return rank
    return None


def role_of(folder):
    """The role whose folder this is, or None."""
    top = folder.split("/")[0]
    return top if top in rules.ROLES else None


def may_include(user, used, folders):
    """Why library `user` must not include a header of library `used`, or None if it may."""
    if user == used:
        return None
    if user in rules.PURE and used not in rules.PURE_MAY_INCLUDE:
        return f"{user} is pure and may include {' and '.join(rules.PURE_MAY_INCLUDE)} only"
    user_role, used_role = role_of(folders[user]), role_of(folders[used])
    if user_role and used_role:
        return None if user_role == used_role else "roles never include each other"
    if rank_of(used) >= rank_of(user):
        return f"{user} may include only what stands below it"
    return None


def restricted(path, header):
    for pattern, places, said in rules.RESTRICTED_HEADERS:
        if re.fullmatch(pattern, header) and not path.startswith(tuple(places)):
            return said
    return None


def check_includes(tree):
    """Layers, roles, restricted headers, and the form LIB/header.h."""
    folders = source.libraries(tree)
    for library in sorted(folders):
        if rank_of(library) is None:
            yield f"{folders[library]}CMakeLists.txt:1: library {library} has no layer; add it to tests/tidy/rules.py"
    known = {library: folder for library, folder in folders.items() if rank_of(library) is not None}
    for path in tree.having(".c", ".h"):
        user = source.library_of(path, known)
        for line, quoted, header in source.includes(tree.files[path]):
            where = f"{path}:{line}: includes {header}"
            said = restricted(path, header)
            if said:
                yield f"{where}: {said}"
            if header.endswith(".c"):
                yield f"{where}: no file includes a program; make it a library"
            used = header.split("/")[0]
            if user and quoted and "/" not in header and known[user] + header in tree.files:
                yield f"{where}: write it as {user}/{header}"
            elif user and quoted and used in known:
                said = may_include(user, used, known)
                if said:
                    yield f"{where}: {said}"


def banned_here(path, where, exceptions):
    is_test = path.startswith("tests/")
    if where == "product" and is_test or where == "tests" and not is_test:
        return False
    return not path.startswith(tuple(exceptions))


def check_banned_calls(tree):
    patterns = [(re.compile(r"(?<![\w.>])" + name + r"[ \t]*\("), name, where, exceptions, instead)
                for name, where, exceptions, instead in rules.BANNED_CALLS]
    for path in tree.having(".c", ".h"):
        text = source.strip_c(tree.files[path])
        for pattern, name, where, exceptions, instead in patterns:
            if not banned_here(path, where, exceptions):
                continue
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{line}: calls {name}; use {instead}"


def check_number_parsers(tree):
    """Numbers are parsed in one file, so that the check of end and range is written once."""
    pattern = re.compile(r"(?<![\w.>])(?:" + "|".join(rules.NUMBER_PARSERS) + r")[ \t]*\(")
    users = [path for path in tree.having(".c", ".h")
             if not path.startswith("tests/") and pattern.search(source.strip_c(tree.files[path]))]
    if len(users) > 1:
        for path in users:
            others = ", ".join(user for user in users if user != path)
            yield f"{path}:1: parses numbers itself, as does {others}; one file does it for all"


def check_sleeps_in_python(tree):
    for path in tree.having(".py"):
        if path.startswith("tests/") and not path.startswith("tests/tidy/"):
            for number, line in enumerate(tree.files[path].split("\n"), 1):
                if re.search(r"\bsleep\(", line):
                    yield f"{path}:{number}: sleeps; wait for a condition, with a guard"


def functions(text):
    """(first line, number of lines) of each C function: a brace in column 0 up to the next closing one."""
    start = None
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start is not None:
            yield start, number - start + 1
            start = None


def check_function_lengths(tree):
    for path in tree.having(".c", ".h"):
        for first, lines in functions(source.strip_c(tree.files[path])):
            if lines > rules.FUNCTION_LINES:
                yield f"{path}:{first}: a function of {lines} lines; at most {rules.FUNCTION_LINES}"


def check_header_comments(tree):
    """A header is a contract: it begins by saying what it is for."""
    for path in tree.having(".h"):
        if not tree.files[path].lstrip().startswith("/*"):
            yield f"{path}:1: a header begins with a comment that says what it is for"


CHECKS = [check_includes, check_banned_calls, check_number_parsers, check_sleeps_in_python, check_function_lengths,
          check_header_comments]
