"""Formulas as MathML, which browsers draw themselves: no script, no font, no network.

The conversion is docutils' own. A formula it cannot convert is a warning, and so an error of the build.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.util import logging

_log = logging.getLogger(__name__)


def formula(latex: str, display: bool, node: nodes.Element) -> str:
    """One formula as a <math> element."""
    try:
        tree = latex2mathml.tex2mathml(latex, as_block=display)
    except Exception as problem:
        _log.warning("formula not understood (%s): %s", problem, latex, location=node)
        return f"<code>{nodes.Text(latex).astext()}</code>"
    return str(tree)


def inline(self: Any, node: nodes.math) -> None:
    self.body.append(formula(node.astext(), False, node))
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{formula(node.astext(), True, node)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Register under the name `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
