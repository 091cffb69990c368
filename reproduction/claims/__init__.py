"""What the paper claims, what we measured, and whether the two agree: every verdict is computed."""

from reproduction.claims.estimators import CLAIMS as _ESTIMATORS
from reproduction.claims.ledger import AGREES, DIFFERS, UNTESTED, Claim, Judged, as_markdown, judge
from reproduction.claims.slips import CLAIMS as _SLIPS
from reproduction.claims.theory import CLAIMS as _THEORY
from reproduction.claims.training import CLAIMS as _TRAINING

LEDGER: tuple[Claim, ...] = (*_THEORY, *_ESTIMATORS, *_TRAINING, *_SLIPS)

__all__ = ["AGREES", "DIFFERS", "LEDGER", "UNTESTED", "Claim", "Judged", "as_markdown", "judge"]
