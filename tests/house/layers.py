"""Holds the #include lines of include/ and src/ against the table in layers.txt.

    layers.py [ROOT]        prints each line that breaks the order and exits 1 if there is one
    layers.py --self-test   shows that it finds each kind of break in a small made-up tree
"""
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
# What a public header may need of the system.
PUBLIC_SYSTEM = {"limits.h", "stdbool.h", "stddef.h", "stdint.h"}
# C17, POSIX and Linux; everything else in <> is another library's.
SYSTEM = PUBLIC_SYSTEM | {
    "assert.h", "ctype.h", "dirent.h", "dlfcn.h", "errno.h", "fcntl.h", "fenv.h", "float.h",
    "getopt.h", "glob.h", "inttypes.h", "libgen.h", "locale.h", "malloc.h", "math.h", "netdb.h",
    "poll.h", "pthread.h", "regex.h", "sched.h", "semaphore.h", "setjmp.h", "signal.h", "spawn.h",
    "stdalign.h", "stdarg.h", "stdatomic.h", "stdio.h", "stdlib.h", "stdnoreturn.h", "string.h",
    "strings.h", "termios.h", "threads.h", "time.h", "unistd.h", "wchar.h",
}
SYSTEM_FOLDERS = ("arpa/", "linux/", "net/", "netinet/", "sys/")


def read_table(text):
    """Folder -> (rank, headers of other libraries), in the order of the rows."""
    table = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            folder, headers = line.split(":")
            table[folder.strip()] = (len(table), set(headers.split()))
    return table


def folder_of(table, path):
    return next((folder for folder in table if path.startswith(folder + "/")), None)


def problem(table, here, quote, name):
    """Why `here` may not include `name`, or None."""
    rank, libraries = table[here]
    if quote == '"':
        there = "include/dtr" if name.startswith("dtr/") else folder_of(table, "src/" + name)
        if there is None:
            return f"{name} is in no folder of layers.txt"
        if table[there][0] > rank:
            return f"{here} may not include from {there}, which is below it"
        return None
    if here == "include/dtr":
        return None if name in PUBLIC_SYSTEM else f"the public API may not need <{name}>"
    if name in SYSTEM or name.startswith(SYSTEM_FOLDERS) or name in libraries:
        return None
    if any(name.startswith(library) for library in libraries if library.endswith("/")):
        return None
    if "c++" in libraries and "." not in name and "/" not in name:
        return None
    return f"layers.txt does not allow <{name}> in {here}"


def check(root, table):
    problems = []
    for path in sorted(p for top in ("include", "src") for p in (root / top).rglob("*")
                       if p.suffix in {".c", ".h", ".cu", ".cpp", ".def"}):
        relative = path.relative_to(root).as_posix()
        here = folder_of(table, relative)
        if here is None:
            problems.append(f"{relative}: its folder is not in layers.txt")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            why = match and problem(table, here, *match.groups())
            if why:
                problems.append(f"{relative}:{number}: {why}")
    return problems


def self_test():
    table = read_table("include/dtr:\nsrc/base:\nsrc/store: sqlite3.h\n")
    files = {
        "include/dtr/a.h": '#include <stdint.h>\n#include <stdio.h>\n#include "dtr/b.h"\n',
        "src/base/a.c": '#include <sys/stat.h>\n#include "store/a.h"\n#include <sqlite3.h>\n',
        "src/store/a.c": '#include <sqlite3.h>\n  #  include "base/a.h"\n#include "a.h"\n',
        "src/other/a.c": "",
    }
    expected = [
        "include/dtr/a.h:2: the public API may not need <stdio.h>",
        "src/base/a.c:2: src/base may not include from src/store, which is below it",
        "src/base/a.c:3: layers.txt does not allow <sqlite3.h> in src/base",
        "src/other/a.c: its folder is not in layers.txt",
        "src/store/a.c:3: a.h is in no folder of layers.txt",
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = check(root, table)
    if found != expected:
        print("expected:", *expected, "found:", *found, sep="\n  ")
    return found != expected


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = pathlib.Path(arguments[0]) if arguments else HERE.parents[1]
    problems = check(root, read_table((HERE / "layers.txt").read_text()))
    print("\n".join(problems) or "all includes follow the layout")
    return bool(problems)


sys.exit(main(sys.argv[1:]))
