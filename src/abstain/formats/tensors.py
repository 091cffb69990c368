"""safetensors (a JSON header and raw numbers, read here) and torch files (tensors only, never code)."""

from __future__ import annotations

import json
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import DataError, MissingDependencyError
from abstain.formats.columns import Column, Source
from abstain.formats.limits import Limits, reading, shown

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_HEADER = 16 * 2**20
_TORCH_HOPES = ("pickle", "weights_only", "Unsupported", "WeightsUnpickler", "GLOBAL", "persistent")


def open_safetensors(path: Path, limits: Limits) -> Source:
    """Tensors by name; every offset is checked against the file before anything is read."""
    with reading(path, "safetensors"), path.open("rb") as stream:
        count = int.from_bytes(stream.read(8), "little")
        room = path.stat().st_size - 8
        if not 2 <= count <= min(room, _HEADER):
            raise DataError(f"{shown(path)}: is no safetensors file, or truncated (header of {count} bytes).")
        header = json.loads(stream.read(count).decode("utf-8"))
        if not isinstance(header, dict) or len(header) > limits.columns:
            raise DataError(f"{shown(path)}: its header must be an object of tensors.")
        more = header.pop("__metadata__", {})
        columns = {k: _tensor(path, k, v, 8 + count, room - count, limits) for k, v in header.items()}
    stated = more.get("classes") if isinstance(more, dict) else None
    return Source(path, "safetensors", columns, _class_names(stated))


def _class_names(stated: Any) -> tuple[str, ...]:
    """A JSON list of names, or names between commas."""
    if not isinstance(stated, str):
        return ()
    try:
        names = json.loads(stated)
    except ValueError:
        names = stated.split(",")
    return tuple(str(name).strip() for name in names) if isinstance(names, list) else ()


def _tensor(path: Path, name: str, entry: Any, start: int, room: int, limits: Limits) -> Column:
    kind, shape = entry["dtype"], tuple(int(s) for s in entry["shape"])
    low, high = (int(x) for x in entry["data_offsets"])
    if kind not in _DTYPES:
        raise DataError(f"{shown(path)}: tensor `{shown(name)}` has dtype {shown(kind)}, which is not read.")
    dtype = np.dtype(_DTYPES[kind])
    needed = math.prod(shape) * dtype.itemsize
    if min((low, *shape), default=0) < 0 or high - low != needed or high > room:
        raise DataError(
            f"{shown(path)}: tensor `{shown(name)}` does not lie inside the file; is it truncated?"
        )
    limits.check(path, 2 * needed, f"tensor `{shown(name)}`")

    def load() -> np.ndarray:
        with reading(path, "safetensors"), path.open("rb") as stream:
            stream.seek(start + low)
            raw = np.frombuffer(bytearray(stream.read(needed)), dtype=dtype).reshape(shape)
        # bfloat16 is the upper half of a float32
        return (raw.astype("<u4") << 16).view("<f4") if kind == "BF16" else raw

    return Column(shape, {"BF16": "bfloat16"}.get(kind, str(dtype)), load)


def open_torch(path: Path, limits: Limits) -> Source:
    """A dict of tensors (or one tensor, called "array") saved by torch, read with weights_only=True."""
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(f"Reading {shown(path.name)}", "torch", "torch") from error
    with reading(path, "a torch file of tensors"):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                limits.check(path, sum(m.file_size for m in archive.infolist()))
        else:
            limits.check(path, path.stat().st_size)
        content = _load(path, torch)
        return _torch_source(path, content, torch, limits)


def _load(path: Path, torch: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd pickle protocols, on which it fails right after
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if any(word in str(error) for word in _TORCH_HOPES):
            raise DataError(
                f"{shown(path)}: holds more than tensors (pickled Python objects), which can run code when opened "
                f"and is not read. Save a dict of tensors: torch.save({{'logits': ..., 'labels': ...}}, path)."
            ) from error
        raise


def _torch_source(path: Path, content: Any, torch: Any, limits: Limits) -> Source:
    if isinstance(content, torch.Tensor):
        content = {"array": content}
    if not isinstance(content, dict):
        raise DataError(f"{shown(path)}: must hold a dict of tensors, got {type(content).__name__}.")
    columns = {}
    for name, tensor in content.items():
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            continue
        limits.check(path, tensor.numel() * tensor.element_size() * 2, f"tensor `{shown(name)}`")
        columns[str(name)] = _torch_column(tensor, torch)
    named = content.get("classes")
    classes = tuple(map(str, named)) if isinstance(named, (list, tuple)) else ()
    return Source(path, "pt", columns, classes)


def _torch_column(tensor: Any, torch: Any) -> Column:
    def load() -> np.ndarray:
        plain = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
        return np.array(plain.numpy())

    return Column(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), load)
