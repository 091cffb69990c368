"""Train with JAX: AURC as a pure loss function, for jit, grad and vmap.

>>> import jax.numpy as jnp
>>> from abstain.jax import aurc_loss
>>> round(float(aurc_loss(jnp.zeros((4, 2)), jnp.asarray([0, 1, 1, 0]))), 4)  # all tied: the plain mean, ln 2
0.6931
"""

from abstain.errors import MissingDependencyError

try:
    import jax as _jax  # noqa: F401
except ImportError as problem:  # pragma: no cover - jax is present wherever the tests run
    raise MissingDependencyError("abstain.jax", "jax", "jax") from problem

from abstain.jax.losses import aurc_loss, linear_warmup, smooth_zero_one

__all__ = ["aurc_loss", "linear_warmup", "smooth_zero_one"]
