"""Figures from the numbers of a study; nothing is computed here."""

from abstain.paper.figures.gallery import draw, draw_all

__all__ = ["draw", "draw_all"]
