"""Holds #include lines in src/ and include/ against layers.txt.

Prints each line that reaches down the table, or that takes another library's header into the public
API, and exits 1.
"""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
rows = [line.strip() for line in (root / "tests/house/layers.txt").read_text().splitlines()
        if line.strip() and not line.startswith("#")]
rank = {row: i for i, row in enumerate(rows)}
include = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
standard = {"limits.h", "stdbool.h", "stddef.h", "stdint.h"}
# The session wires the engine's needs; the engine may use the whole library below the programs.
errors = []


def row_of(path):
    relative = path.relative_to(root).as_posix()
    return next((row for row in rows if relative.startswith(row + "/")), None)


def target_row(name):
    if name.startswith("dtr/"):
        return "include/dtr"
    return next((row for row in rows if name.startswith(row.removeprefix("src/") + "/")), None)


for path in sorted([*root.glob("src/**/*.[ch]"), *root.glob("src/**/*.def"),
                    *root.glob("include/**/*.h")]):
    here = row_of(path)
    if here is None:
        errors.append(f"{path.relative_to(root)}: its folder is not in layers.txt")
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = include.match(line)
        if not match:
            continue
        quote, name = match.groups()
        place = f"{path.relative_to(root)}:{number}"
        if here == "include/dtr" and not name.startswith("dtr/") and name not in standard:
            errors.append(f"{place}: the public API may not need {name}")
        if quote != '"':
            continue
        there = target_row(name)
        if there is None:
            errors.append(f"{place}: {name} is in no folder of layers.txt")
        elif rank[there] > rank[here]:
            errors.append(f"{place}: {here} may not include from {there}, which is below it")

print("\n".join(errors) or "all includes follow the layout")
sys.exit(bool(errors))
