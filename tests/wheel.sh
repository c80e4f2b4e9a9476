#!/usr/bin/env bash
# The wheel on every Python from 3.11 that is there, with the newest dependencies, and on the oldest Python with the oldest that
# pyproject.toml names: run by hand, `bash tests/wheel.sh [pytest's arguments]`. PYTHONS says which; QUICK=1 runs the command and
# the contract's tests alone.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

pythons=${PYTHONS:-$(for minor in 11 12 13 14; do
  ls -d "$HOME/.pyenv/versions/3.$minor".*/bin/python /usr/bin/python3.$minor 2>/dev/null | tail -1 || true
done)}
[ -z "${QUICK:-}" ] || set -- tests/cli/test_cli_contract.py tests/test_library.py tests/cli/test_broken.py "$@"
python3 -m pip wheel --quiet --no-deps --wheel-dir "$place" .
wheel=("$place"/*.whl)
cp -r tests pyproject.toml *.md docs presets action.yml .pre-commit-hooks.yaml Dockerfile mkdocs.yml "$place"

first=oldest
for python in $pythons; do
  for which in $first newest; do
    first=
    echo "== $("$python" --version), $which dependencies"
    rm -rf "$place/venv"
    "$python" -m venv "$place/venv"
    bin="$place/venv/bin"
    "$bin/pip" install --quiet --disable-pip-version-check "${wheel[0]}[test]"
    if [ $which = oldest ]; then
      # what pyproject.toml names as the least, made equal
      "$bin/python" - > "$place/oldest.txt" <<'PY'
import re, tomllib
for one in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]:
    found = re.match(r"([\w-]+)>=([\d.]+)", one)
    if found:
        print(f"{found[1]}=={found[2]}")
PY
      "$bin/pip" install --quiet --disable-pip-version-check -r "$place/oldest.txt"
    fi
    (cd "$place" && test "$("$bin/gptcalc" params llama-3-8b --get total)" = 8030261248 && "$bin/python" -m pytest -q -n 2 "$@")
  done
done
