"""Who should answer, at what cost, with a promise: cheap models first, dear ones next, a person last."""

from abstain.cascades.cascade import Cascade, cascade

__all__ = ["Cascade", "cascade"]
