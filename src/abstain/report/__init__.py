"""Interactive HTML pages of results that the library has computed."""

from abstain.report.board import board, board_content, save_board
from abstain.report.cascade_page import cascade_page, save_cascade_page
from abstain.report.content import Content, gather, versions
from abstain.report.page import page, save_page

__all__ = [
    "Content",
    "board",
    "board_content",
    "cascade_page",
    "gather",
    "page",
    "save_board",
    "save_cascade_page",
    "save_page",
    "versions",
]
