"""Tests inside harnesses and loggers themselves. Their packages have an environment of their own: `make test-harness`."""

from importlib.util import find_spec

_NEEDED = {
    "test_inspect_ai.py": ("inspect_ai",),
    "test_lm_eval.py": ("lm_eval",),
    "test_integrations.py": ("mlflow", "wandb", "evaluate", "skore"),
}
collect_ignore = [file for file, packages in _NEEDED.items() if not all(map(find_spec, packages))]
