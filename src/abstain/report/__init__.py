"""The interactive page. It shows what the library computed and computes nothing itself."""

from abstain.report.content import Content, gather, versions
from abstain.report.page import page, save_page

__all__ = ["Content", "gather", "page", "save_page", "versions"]
