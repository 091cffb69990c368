"""The AURC numbers of other packages, under explicit names, so that you find the one you had and see why it
differs.

All take a loss and a confidence (higher = surer) for each sample; packages that ask for an uncertainty get
its negative. Ours, `abstain.aurc`, is the mean over samples of the selective risk at each one's confidence,
equal confidences accepted together. Functions marked *row order* sort and cumulate without regard to ties,
as the package does: equal confidences stand in the order of the rows, and shuffling the rows changes the
number.
"""

from abstain.compat.conventions import (
    fd_shifts_augrc,
    fd_shifts_aurc,
    geifman_aurc,
    literal_log_aurc,
    lm_polygraph_rcc_auc,
    mapie_one_minus_auarc,
    origin_trapezoid_aurc,
    row_order_aurc,
    seapig_augrc,
    seapig_aurc,
    torch_uncertainty_augrc,
    torch_uncertainty_aurc,
)
from abstain.compat.side_by_side import CompatRow, CompatTable, table

__all__ = [
    "CompatRow",
    "CompatTable",
    "fd_shifts_augrc",
    "fd_shifts_aurc",
    "geifman_aurc",
    "literal_log_aurc",
    "lm_polygraph_rcc_auc",
    "mapie_one_minus_auarc",
    "origin_trapezoid_aurc",
    "row_order_aurc",
    "seapig_augrc",
    "seapig_aurc",
    "table",
    "torch_uncertainty_augrc",
    "torch_uncertainty_aurc",
]
