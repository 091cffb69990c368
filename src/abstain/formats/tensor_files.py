"""Files of tensors: safetensors, and what torch saves."""

from __future__ import annotations

import json
import math
import pickletools
import warnings
import zipfile
from collections.abc import Iterable
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from abstain.errors import import_optional
from abstain.formats.columns import Column, Source
from abstain.formats.json_files import _loads
from abstain.formats.safety import Limits, display_name, file_error, reading, unpacked_archive_size

# safetensors (a JSON header and raw numbers, read here) and torch files (tensors only, never code)

_NUMBERS = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1")
SAFETENSORS = {f"{kind[0].upper()}{8 * int(kind[1])}": np.dtype(f"<{kind}").str for kind in _NUMBERS}
SAFETENSORS |= {"BOOL": "|b1", "BF16": "<u2"}
_LONGEST_HEADER = 2 * 2**20  # of the few tensors of a file of predictions, and its class names
_INSTRUCTIONS = 100_000
_TORCH_REFUSES = ("pickle", "weights_only", "Unsupported", "WeightsUnpickler", "GLOBAL", "persistent")


def open_safetensors(path: Path, limits: Limits) -> Source:
    """Tensors by name; every offset is checked against the file before anything is read."""
    with reading(path, "safetensors"), path.open("rb") as stream:
        count = int.from_bytes(stream.read(8), "little")
        room = path.stat().st_size - 8
        if not 2 <= count <= min(room, _LONGEST_HEADER):
            raise file_error(path, f"is no safetensors file, or truncated (header of {count} bytes).")
        header = _loads(stream.read(count).decode("utf-8"))
        if not isinstance(header, dict) or len(header) > limits.columns:
            raise file_error(path, "its header must be an object of tensors.")
        more = header.pop("__metadata__", {})
        columns = {k: _tensor(path, k, v, 8 + count, room - count, limits) for k, v in header.items()}
        spans = sorted((*map(int, v["data_offsets"]), k) for k, v in header.items())
        for (_, end, one), (start, _, other) in pairwise(spans):
            if start < end:
                raise file_error(path, f"tensors `{display_name(one)}` and `{display_name(other)}` overlap.")
    stated = more.get("classes") if isinstance(more, dict) else None
    return Source(path, "safetensors", columns, _stated_classes(stated))


def _stated_classes(stated: Any) -> tuple[str, ...]:
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
    if kind not in SAFETENSORS:
        raise file_error(
            path, f"tensor `{display_name(name)}` has dtype {display_name(kind)}, which is not read."
        )
    dtype = np.dtype(SAFETENSORS[kind])
    size = math.prod(shape) * dtype.itemsize
    if min((low, *shape), default=0) < 0 or high - low != size or high > room:
        raise file_error(
            path, f"tensor `{display_name(name)}` does not lie inside the file; is it truncated?"
        )
    limits.check(path, 2 * size, f"tensor `{display_name(name)}`")

    def load() -> np.ndarray:
        with reading(path, "safetensors"), path.open("rb") as stream:
            stream.seek(start + low)
            raw = np.frombuffer(bytearray(stream.read(size)), dtype=dtype).reshape(shape)
        # bfloat16 is the upper half of a float32
        return (raw.astype("<u4") << 16).view("<f4") if kind == "BF16" else raw

    return Column(shape, "bfloat16" if kind == "BF16" else str(dtype), load)


def open_torch(path: Path, limits: Limits) -> Source:
    """A dict of tensors (or one tensor, called "array") saved by torch, read with weights_only=True."""
    torch = import_optional("torch", f"Reading {display_name(path.name)}", "torch")
    with reading(path, "a torch file of tensors"):
        _check_pickles(path, limits)
        content = _torch_content(path, torch)
        if isinstance(content, torch.Tensor):
            content = {"array": content}
        if not isinstance(content, dict):
            raise file_error(path, f"must hold a dict of tensors, got {type(content).__name__}.")
        columns = {}
        for name, tensor in content.items():
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                limits.check(
                    path, tensor.numel() * tensor.element_size() * 2, f"tensor `{display_name(name)}`"
                )
                kind = str(tensor.dtype).removeprefix("torch.")
                columns[str(name)] = Column(tuple(tensor.shape), kind, partial(_torch_values, tensor))
    named = content.get("classes")
    return Source(path, "pt", columns, tuple(map(str, named)) if isinstance(named, (list, tuple)) else ())


def _check_pickles(path: Path, limits: Limits) -> None:
    """Refuse a torch file whose instructions for rebuilding its tensors are endless: some hundred make a dict of them.

    A file of torch 1.6 or later is a zip archive with the instructions in a member of its own; an older one begins with
    five pickles.
    """
    if zipfile.is_zipfile(path):
        limits.check(path, unpacked_archive_size(path))
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".pkl"):
                    with archive.open(member) as stream:
                        _check_instructions(path, pickletools.genops(stream))
        return
    limits.check(path, path.stat().st_size)
    with path.open("rb") as stream:
        _check_instructions(path, chain.from_iterable(pickletools.genops(stream) for _ in range(5)))


def _check_instructions(path: Path, instructions: Iterable[Any]) -> None:
    if next(islice(instructions, _INSTRUCTIONS, None), None) is not None:
        raise file_error(
            path, f"has more than {_INSTRUCTIONS:,} instructions, which no dict of tensors needs."
        )


def _torch_content(path: Path, torch: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd pickle protocols, on which it fails right after
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if any(word in str(error) for word in _TORCH_REFUSES):
            raise file_error(
                path,
                "holds more than tensors (pickled Python objects), which can run code when opened and is not "
                "read. Save a dict of tensors: torch.save({'logits': ..., 'labels': ...}, path).",
            ) from error
        raise


def _torch_values(tensor: Any) -> np.ndarray:
    plain = tensor.detach()
    return np.array((plain.float() if "bfloat16" in str(plain.dtype) else plain).numpy())
