"""Tests inside the harnesses themselves. Their packages have an environment of their own: `make test-harness`."""

from importlib.util import find_spec

collect_ignore = [f"test_{package}.py" for package in ("inspect_ai", "lm_eval") if find_spec(package) is None]
