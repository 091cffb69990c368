"""The interactive pages. They show what the library computed and compute nothing themselves."""

from abstain.report.board import board, save_board
from abstain.report.content import Content, gather, versions
from abstain.report.page import page, save_page

__all__ = ["Content", "board", "gather", "page", "save_board", "save_page", "versions"]
