#!/bin/sh
# Build the wheel and the source archive into dist/, install each into an empty environment and run the demo there.
# Usage: sh tools/check_dist.sh [folder]      with a folder: its two files are tried and nothing is built
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$root/src/abstain/__init__.py")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

install() { # Python, what
    "$1" -m pip --disable-pip-version-check install --quiet --constraint "$root/constraints.txt" "$2"
}

if [ $# -eq 0 ]; then
    "${PYTHON:-python3}" -m venv "$place/build"
    install "$place/build/bin/python" build
    rm -rf "$root/dist"
    "$place/build/bin/python" -m build --outdir "$root/dist" "$root"
fi
dist=$(cd "${1:-$root/dist}" && pwd)

# The paper's experiments and their results are in the source archive only.
"${PYTHON:-python3}" - "$dist/abstain-$version-py3-none-any.whl" <<'EOF'
import os, sys, zipfile
size, names = os.path.getsize(sys.argv[1]), zipfile.ZipFile(sys.argv[1]).namelist()
paper = [name for name in names if "paper" in name or name.startswith("reproduction")]
if paper or size >= 2_000_000:
    sys.exit(f"the wheel has {size} bytes, of the paper: {paper}")
EOF

for file in "$dist/abstain-$version-py3-none-any.whl" "$dist/abstain-$version.tar.gz"; do
    [ -f "$file" ] || { echo "missing: $file"; exit 1; }
    env="$place/env"
    rm -rf "$env"
    "${PYTHON:-python3}" -m venv "$env"
    install "$env/bin/python" "$file"
    cd "$place"
    "$env/bin/abstain" demo --no-report | grep -q AURC || { echo "no table"; exit 1; }
    [ "$("$env/bin/python" -c 'import abstain; print(abstain.__version__)')" = "$version" ] || { echo "wrong version"; exit 1; }
    "$env/bin/abstain" demo -o "$place/demo.html" > "$place/demo.txt"
    grep -q AURC "$place/demo.txt" && [ -s "$place/demo.html" ] || { echo "the demo printed no table"; exit 1; }
    "$env/bin/python" - <<'EOF'
import abstain
assert round(abstain.aurc([0, 1, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]), 5) == 0.29667
EOF
    echo "ok: $(basename "$file") installs and runs the demo"
done
