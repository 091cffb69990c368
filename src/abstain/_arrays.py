"""Array libraries: which one an array belongs to, and how to convert it.

Arrays of numpy, torch, cupy, jax and any array-API library are accepted. Host arrays (numpy, torch on the CPU,
concrete jax arrays on the CPU) are viewed as numpy without a copy, and the fast functions compute; arrays on a
device stay there, and the generic functions compute. No framework is imported here: one that the user has not
imported cannot be the library of an array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from abstain.errors import DtypeError

Array = Any  # an array of any library, inside the package: the array API has no types
Namespace = Any  # the module of an array library


class _HasShape(Protocol):
    @property
    def shape(self) -> object: ...


class _SupportsArray(Protocol):
    def __array__(self) -> object: ...


ArrayLike: TypeAlias = _HasShape | _SupportsArray | Sequence[object]
"""What users pass: arrays of numpy, torch, jax or cupy, columns and frames of pandas or polars, and (nested) lists."""


def _is_instance(x: Array, library: str, class_name: str) -> bool:
    """True if `x` is of that class; False if its library has not been imported."""
    module = sys.modules.get(library)
    return module is not None and isinstance(x, getattr(module, class_name))


def is_torch(x: Array) -> bool:
    """True for a torch tensor."""
    return _is_instance(x, "torch", "Tensor")


def is_jax(x: Array) -> bool:
    """True for a jax array or tracer."""
    return _is_instance(x, "jax", "Array")


def is_cupy(x: Array) -> bool:
    """True for a cupy array."""
    return _is_instance(x, "cupy", "ndarray")


def is_array(x: Array) -> bool:
    """True for an array of some library, False for a list or a number."""
    return isinstance(x, np.ndarray) or hasattr(x, "__array_namespace__") or is_torch(x) or is_cupy(x)


def is_concrete(x: Array) -> bool:
    """True if the values of `x` can be read; False for the tracers of jax.jit, jax.grad and jax.vmap."""
    return not (is_jax(x) and isinstance(x, sys.modules["jax"].core.Tracer))


def _refuse_masked(x: Array) -> Array:
    """Return `x`; raise DtypeError for a masked array, since some numpy functions honour a mask and others drop it."""
    if isinstance(x, np.ma.MaskedArray):
        raise DtypeError(
            "abstain: arrays must not be masked, got a numpy.ma.MaskedArray. Leave the samples out of every array "
            "(`x.data[~x.mask]`), or mark them with `abstained=`."
        )
    return x


def _host_view(x: Array) -> np.ndarray | None:
    """View `x` as numpy, without a copy except for lists and bfloat16.

    None if it is on a device, an array of another library than numpy, torch and jax, a jax tracer, or a torch tensor
    that is part of a gradient. The caller then computes in the array's own library. Raises DtypeError for a masked
    array, which is a kind of numpy array.
    """
    if type(x) is np.ndarray:
        return x
    # a subclass of numpy's array, a list, a number, a column of pandas or polars
    if isinstance(x, np.ndarray) or not is_array(x):
        return np.asarray(_refuse_masked(x))
    if is_torch(x):
        torch = sys.modules["torch"]
        if x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled()):
            return None
        x = x.detach()
        if x.dtype is torch.bfloat16:  # numpy has no bfloat16; float32 holds it exactly
            x = x.float()
        return np.asarray(x.numpy())
    if is_jax(x):
        if not is_concrete(x) or any(device.platform != "cpu" for device in x.devices()):
            return None
        view = np.asarray(x)
        return view.astype(np.float32) if view.dtype.name == "bfloat16" else view
    return None


def to_host(x: Array) -> Array:
    """Convert `x` to numpy, copied from its device and detached from its gradient; None stays None."""
    if x is None:
        return None
    if is_torch(x):
        x = x.detach().cpu()
    view = _host_view(x)
    if view is not None:
        return view
    return x.get() if is_cupy(x) else np.asarray(x)


class Backend(NamedTuple):
    """The library that computes, and how results return to the input's library.

    Attributes
    ----------
    xp : module
        An array-API namespace.
    to_input_library : callable
        Converts a result to the input's library, on its device.
    is_host : bool
        True if numpy computes, with the fast functions of the core; False if the input's library does, with the
        generic functions.
    """

    xp: Namespace
    to_input_library: Callable[[Array], Any]
    is_host: bool

    def asarray(self, x: Array, like: Array = None) -> Array:
        """Convert `x` to an array of this library: on the host a numpy view, otherwise on the device of `like`.

        Only torch arrays are moved to another device; arrays of other libraries stay where they are. `like` is another
        argument of the same call, None for the default device. `self.xp` is the array-API namespace of the library, and
        `self.is_host` says that it is numpy. Raises DtypeError for a masked array.
        """
        if self.is_host:
            view = _host_view(x)  # None for an array that has to be copied to the host
            return np.asarray(x) if view is None else view
        if is_torch(x) and is_torch(like):
            return x.to(like.device)
        if is_array(x) and not isinstance(x, np.ndarray):  # `backend_of` has refused a mixture of libraries
            return x
        if is_torch(like):
            return sys.modules["torch"].as_tensor(_refuse_masked(x), device=like.device)
        return self.xp.asarray(_refuse_masked(x))

    @property
    def full_xp(self) -> Namespace:
        """The namespace with every array-API function; plain numpy lacks a few options."""
        if not self.is_host:
            return self.xp
        import array_api_compat.numpy

        return array_api_compat.numpy


def backend_of(*arrays: Array) -> Backend:
    """Choose the library that computes: numpy for arrays on the host, otherwise the library of the arrays.

    Results return to the library of the first array that is not numpy's; without one they are numpy arrays or Python
    numbers. Lists and None are ignored. Raises DtypeError for arrays of two libraries if one of them is not on the
    host.
    """
    not_numpy = [
        array
        for array in arrays
        if array is not None and not isinstance(array, np.ndarray) and is_array(array)
    ]
    if not not_numpy:
        return _NUMPY_BACKEND
    # `_host_view` returns a numpy view, or None for an array on a device or one that is part of a gradient
    if all(_host_view(array) is not None for array in not_numpy):
        return Backend(xp=np, to_input_library=_converter_to_library_of(not_numpy[0]), is_host=True)
    import array_api_compat

    libraries = list(dict.fromkeys(type(array).__module__.partition(".")[0] for array in not_numpy))
    # arrays of jax have a type of jaxlib
    libraries = ["jax" if name == "jaxlib" else name for name in libraries]
    if len(set(libraries)) > 1:
        raise DtypeError(
            f"abstain: arrays must come from one library where one of them is on a device or has a gradient, got "
            f"{' and '.join(libraries)}. Convert the others first."
        )
    # its library computes, so that results are in it already
    xp = array_api_compat.array_namespace(*not_numpy)
    return Backend(xp=xp, to_input_library=lambda value: value, is_host=False)


def to_number_or_array(value: Array) -> Any:
    """Convert a zero-dimensional array to a Python number; other arrays stay numpy arrays."""
    if type(value) is float:
        return value
    value = np.asarray(value)
    return value.item() if value.ndim == 0 else value


_NUMPY_BACKEND = Backend(xp=np, to_input_library=to_number_or_array, is_host=True)


def _converter_to_library_of(example: Array) -> Callable[[Array], Any]:
    """Return the function that converts numpy results to the library of `example`, torch or jax."""
    if is_torch(example):
        torch = sys.modules["torch"]
        return lambda value: torch.from_numpy(np.array(value))  # a copy: results are never views of inputs
    jnp = sys.modules["jax"].numpy
    return lambda value: jnp.asarray(value)


def float_dtype(xp: Namespace) -> Any:
    """The widest float dtype of a library: float64, or float32 for jax without x64."""
    if getattr(xp, "__name__", "").startswith("jax") and not sys.modules["jax"].config.jax_enable_x64:
        return xp.float32
    return xp.float64


def float64_bits(x: Array) -> Array:
    """View the bits of float64 numbers as int64, without a copy."""
    if is_torch(x):
        return x.view(sys.modules["torch"].int64)
    if is_jax(x):
        jax = sys.modules["jax"]
        return jax.lax.bitcast_convert_type(x, jax.numpy.int64)
    return np.asarray(x).view(np.int64)


def extremes(xp: Namespace, x: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest value, in one pass if the library can; both are NaN if there is a NaN."""
    if is_torch(x):
        return tuple(sys.modules["torch"].aminmax(x))
    return xp.min(x), xp.max(x)


def running_max(xp: Namespace, x: Array) -> Array:
    """Cumulative maximum along the last axis (the array API has none); `xp` is the array library of `x`."""
    if xp is np:
        return np.maximum.accumulate(x, axis=-1)
    if is_torch(x):
        return sys.modules["torch"].cummax(x, dim=-1).values
    if is_jax(x):
        return sys.modules["jax"].lax.cummax(x, axis=x.ndim - 1)
    # each entry is the maximum of `offset` entries, itself and those before; every round doubles that number
    offset = 1
    while offset < x.shape[-1]:
        x = xp.concat([x[..., :offset], xp.maximum(x[..., offset:], x[..., :-offset])], axis=-1)
        offset *= 2
    return x
