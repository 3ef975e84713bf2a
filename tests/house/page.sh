#!/usr/bin/env bash
# Checks types, runs the unit tests and builds the page in a copy, and holds the committed web/dist
# against what came out.  Skipped (77) without Node or without its packages: `npm ci` in web/.
set -euo pipefail
web=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../web" && pwd)

command -v npm >/dev/null || { echo "skipped: there is no npm"; exit 77; }
[ -d "$web/node_modules" ] || { echo "skipped: run npm ci in web/ first"; exit 77; }

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for name in "$web"/*; do
    case ${name##*/} in
    dist) ;;
    node_modules) ln -s "$name" "$copy/node_modules" ;;
    *) cp -r "$name" "$copy/" ;;
    esac
done
cd "$copy"
npm run --silent check
npm run --silent test
npm run --silent build
if ! diff -rq dist "$web/dist"; then
    echo "web/dist is not what web/src builds to: run npm run build in web/ and commit it" >&2
    exit 1
fi
