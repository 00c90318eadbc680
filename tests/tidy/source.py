"""Reading the tree: which files there are, and C without its comments and strings."""
import os
import re

from rules import SKIPPED_FOLDERS, SKIPPED_PREFIXES


class Tree:
    """All text files below a folder, by their path from it, with '/'."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        for folder, subfolders, names in os.walk(root):
            top = folder == root
            subfolders[:] = sorted(
                name for name in subfolders
                if name not in SKIPPED_FOLDERS and not (top and name.startswith(SKIPPED_PREFIXES)))
            for name in sorted(set(names) - SKIPPED_FOLDERS):
                path = os.path.relpath(os.path.join(folder, name), root)
                text = read_text(os.path.join(folder, name))
                if text is not None:
                    self.files[path] = text

    def having(self, *suffixes):
        """Paths that end in one of the suffixes, sorted."""
        return [path for path in sorted(self.files) if path.endswith(suffixes)]


def read_text(path):
    """The file's text, or None for what is not a text file (links to nowhere, images)."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(match):
    """Spaces of the same shape: lines and columns stay where they were."""
    return re.sub(r"[^\n]", " ", match.group())


def strip_c(text):
    """C with comments and the insides of strings as spaces."""
    return C_TOKEN.sub(blank, text)


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def includes(text):
    """(line number, quoted?, header) for each #include."""
    found = []
    for match in INCLUDE.finditer(text):
        found.append((text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2)))
    return found


LIBRARY = re.compile(r"^[ \t]*weir_library\((\w+)", re.M)


def libraries(tree):
    """Library name -> folder (with a final '/'), from the CMakeLists.txt that define them."""
    found = {}
    for path in tree.having("CMakeLists.txt"):
        for name in LIBRARY.findall(tree.files[path]):
            found[name] = path[:-len("CMakeLists.txt")]
    return found


def library_of(path, folders):
    """The library that a file belongs to: the longest folder that holds it; None outside libraries."""
    best = None
    for name, folder in folders.items():
        if path.startswith(folder) and (best is None or len(folder) > len(folders[best])):
            best = name
    return best
