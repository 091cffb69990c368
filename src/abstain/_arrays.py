"""The one module that knows which array library it is talking to.

Arrays of numpy, torch, cupy, jax and any array-API library enter here. Host arrays (numpy, torch on the CPU,
concrete jax arrays on the CPU) are viewed as numpy without a copy, and the fast functions compute; arrays on a
device stay there, and the generic ones compute. A framework is only looked at if the user has imported it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from abstain.errors import DtypeError

Array = Any
Namespace = Any


def _is(x: Array, library: str, kind: str) -> bool:
    """Is `x` of that class? (False without importing its library.)"""
    module = sys.modules.get(library)
    return module is not None and isinstance(x, getattr(module, kind))


def is_torch(x: Array) -> bool:
    """Is `x` a torch tensor?"""
    return _is(x, "torch", "Tensor")


def is_jax(x: Array) -> bool:
    """Is `x` a jax array or tracer?"""
    return _is(x, "jax", "Array")


def is_cupy(x: Array) -> bool:
    """Is `x` a cupy array?"""
    return _is(x, "cupy", "ndarray")


def is_array(x: Array) -> bool:
    """Is `x` an array of some library, rather than a list or a number?"""
    return isinstance(x, np.ndarray) or hasattr(x, "__array_namespace__") or is_torch(x) or is_cupy(x)


def is_concrete(x: Array) -> bool:
    """Can the values of `x` be read? False for the tracers inside jax.jit and friends."""
    return not (is_jax(x) and isinstance(x, sys.modules["jax"].core.Tracer))


def _unmasked(x: Array) -> Array:
    """numpy's functions honour a mask or drop it, as it happens: no answer would be sure."""
    if isinstance(x, np.ma.MaskedArray):
        raise DtypeError(
            "abstain: arrays must not be masked, got a numpy.ma.MaskedArray. Leave the samples out of every array "
            "(`x.data[~x.mask]`), or mark them with `abstained=`."
        )
    return x


def _host_view(x: Array) -> np.ndarray | None:
    """`x` as numpy without a copy off a device; None when it lives elsewhere or takes part in a gradient."""
    if isinstance(x, np.ndarray) or not is_array(x):
        return np.asarray(_unmasked(x))
    if is_torch(x):
        torch = sys.modules["torch"]
        if x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled()):
            return None
        x = x.detach()  # numpy has no bfloat16; float32 holds it exactly
        return np.asarray(x.float().numpy() if x.dtype is torch.bfloat16 else x.numpy())
    if is_jax(x):
        if not is_concrete(x) or any(d.platform != "cpu" for d in x.devices()):
            return None
        view = np.asarray(x)
        return view.astype(np.float32) if view.dtype.name == "bfloat16" else view
    return None


def to_host(x: Array) -> Array:
    """`x` as numpy, from wherever it lives and without its gradient; None stays None."""
    if is_torch(x):
        x = x.detach().cpu()
    view = None if x is None else _host_view(x)
    if x is None or view is not None:
        return view
    return x.get() if is_cupy(x) else np.asarray(x)


class Backend(NamedTuple):
    """Which library computes (`xp`), and how a result goes back to where the input lives.

    `host`: numpy computes, by the fast functions of the core; otherwise the input's own library does, by generic ones.
    """

    xp: Namespace
    deliver: Callable[[Array], Any]
    host: bool

    def asarray(self, x: Array, like: Array = None) -> Array:
        """`x` as a numpy view on the host, or as an array of this library beside `like`."""
        if self.host:
            view = _host_view(x)
            return np.asarray(x) if view is None else view
        if is_torch(x) and is_torch(like):
            return x.to(like.device)
        if is_array(x) and not isinstance(x, np.ndarray):
            return x
        if is_torch(like):
            return sys.modules["torch"].as_tensor(_unmasked(x), device=like.device)
        return self.xp.asarray(_unmasked(x))

    @property
    def full_xp(self) -> Namespace:
        """The library with every array-API function (plain numpy lacks a few options)."""
        if not self.host:
            return self.xp
        import array_api_compat.numpy

        return array_api_compat.numpy


def backend_of(*arrays: Array) -> Backend:
    """numpy for anything on the host, the arrays' own library otherwise."""
    foreign = [a for a in arrays if a is not None and is_array(a) and not isinstance(a, np.ndarray)]
    if not foreign:
        return Backend(np, to_python, True)
    if all(_host_view(a) is not None for a in foreign):
        return Backend(np, _deliver_like(foreign[0]), True)
    import array_api_compat

    libraries = list(dict.fromkeys(type(a).__module__.partition(".")[0] for a in foreign))
    libraries = ["jax" if name == "jaxlib" else name for name in libraries]
    if len(set(libraries)) > 1:
        raise DtypeError(
            f"abstain: arrays must come from one library where one of them is on a device or has a gradient, got "
            f"{' and '.join(libraries)}. Convert the others first."
        )
    return Backend(array_api_compat.array_namespace(*foreign), lambda value: value, False)


def to_python(value: Array) -> Any:
    """A number as Python's own; arrays stay numpy's."""
    value = np.asarray(value)
    return value.item() if value.ndim == 0 else value


def _deliver_like(example: Array) -> Callable[[Array], Any]:
    if is_torch(example):
        torch = sys.modules["torch"]
        return lambda value: torch.from_numpy(np.array(value))  # a copy: results are never views of inputs
    jnp = sys.modules["jax"].numpy
    return lambda value: jnp.asarray(value)


def float_dtype(xp: Namespace) -> Any:
    """The widest float of a library: float64 everywhere but jax without x64."""
    if getattr(xp, "__name__", "").startswith("jax") and not sys.modules["jax"].config.jax_enable_x64:
        return xp.float32
    return xp.float64


def float64_bits(x: Array) -> Array:
    """The bits of float64 numbers as int64, without a copy."""
    if is_torch(x):
        return x.view(sys.modules["torch"].int64)
    if is_jax(x):
        jax = sys.modules["jax"]
        return jax.lax.bitcast_convert_type(x, jax.numpy.int64)
    return np.asarray(x).view(np.int64)


def extremes(xp: Namespace, x: Array) -> tuple[Array, Array]:
    """Smallest and largest value (NaN if there is one), in one pass where the library has it."""
    if is_torch(x):
        return tuple(sys.modules["torch"].aminmax(x))
    return xp.min(x), xp.max(x)


def running_max(xp: Namespace, x: Array) -> Array:
    """Cumulative maximum along the last axis (the array API has none)."""
    if xp is np:
        return np.maximum.accumulate(x, axis=-1)
    if is_torch(x):
        return sys.modules["torch"].cummax(x, dim=-1).values
    if is_jax(x):
        return sys.modules["jax"].lax.cummax(x, axis=x.ndim - 1)
    reach = 1
    while reach < x.shape[-1]:  # doubling: after step k every entry has seen 2^k neighbours
        x = xp.concat([x[..., :reach], xp.maximum(x[..., reach:], x[..., :-reach])], axis=-1)
        reach *= 2
    return x
