"""Files of tensors: safetensors (a JSON header and raw numbers) and torch files (tensors only, never code)."""

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
from abstain.formats.columns import Column, OpenedTable
from abstain.formats.json_files import parse_json
from abstain.formats.safety import Limits, display_name, file_error, reporting_damage, unpacked_archive_size

_NUMPY_TYPES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1")
SAFETENSORS_TYPES = {
    f"{code[0].upper()}{8 * int(code[1])}": np.dtype(f"<{code}").str for code in _NUMPY_TYPES
}
"""Name of a type in safetensors -> that of numpy; bfloat16 is read as the integers that hold its bits."""
SAFETENSORS_TYPES |= {"BOOL": "|b1", "BF16": "<u2"}
_LENGTH_SIZE = 8  # bytes before the header, which hold its length
_MAX_HEADER_LENGTH = 2 * 2**20  # bytes: the few tensors of a file of predictions, and its class names
_MAX_INSTRUCTIONS = 100_000  # of a pickle; some hundred make a dict of tensors
_PICKLE_COUNT_OF_OLD_FORMAT = 5  # pickles at the start of a file that torch before 1.6 wrote
# Words in the message of torch.load where a file holds more than tensors.
_TORCH_REFUSAL_WORDS = (
    "pickle",
    "weights_only",
    "Unsupported",
    "WeightsUnpickler",
    "GLOBAL",
    "persistent",
)


def open_safetensors(path: Path, limits: Limits) -> OpenedTable:
    """Open the tensors of a safetensors file by name, each read when it is loaded.

    The file begins with the length of a JSON header (8 bytes); the header gives type, shape and offsets of each tensor.
    DataError where the header is invalid, where a tensor does not lie in the file or overlaps another one, or where
    there are more tensors, or more memory is needed for one, than `limits` allow. Numbers are little-endian. Class
    names may be in the metadata, a dict of texts under "__metadata__". `_check_overlap` raises for tensors that share
    bytes.
    """
    with reporting_damage(path, "safetensors"), path.open("rb") as stream:
        header_length = int.from_bytes(stream.read(_LENGTH_SIZE), "little")
        bytes_after_length = path.stat().st_size - _LENGTH_SIZE
        # the shortest header is {}
        if not 2 <= header_length <= min(bytes_after_length, _MAX_HEADER_LENGTH):
            raise file_error(
                path, f"is not a safetensors file, or is truncated (header of {header_length} bytes)."
            )
        header = parse_json(stream.read(header_length).decode("utf-8"))
        if not isinstance(header, dict) or len(header) > limits.columns:
            raise file_error(path, "its header must be an object of tensors.")
        metadata = header.pop("__metadata__", {})
        data_start = _LENGTH_SIZE + header_length
        data_size = bytes_after_length - header_length
        columns = {
            name: _make_tensor_column(path, name, entry, data_start, data_size, limits)
            for name, entry in header.items()
        }
        _check_overlap(path, header)
    stated_classes = metadata.get("classes") if isinstance(metadata, dict) else None
    classes = _parse_class_names(stated_classes)  # a JSON list as text, or names with commas
    return OpenedTable(path=path, format="safetensors", columns=columns, classes=classes)


def _check_overlap(path: Path, header: dict[str, Any]) -> None:
    """Raise DataError where two tensors share bytes; `header` holds name -> {"data_offsets": [start, stop], ...}."""
    spans: list[tuple[int, int, str]] = []  # start, stop, name
    for name, entry in header.items():
        start, stop = map(int, entry["data_offsets"])
        spans.append((start, stop, name))
    spans.sort()
    for (_start, stop, name), (next_start, _next_stop, next_name) in pairwise(spans):
        if next_start < stop:
            raise file_error(path, f"tensors `{display_name(name)}` and `{display_name(next_name)}` overlap.")


def _parse_class_names(stated_classes: Any) -> tuple[str, ...]:
    """Return the class names of the metadata: a JSON list of names, or names separated by commas."""
    if not isinstance(stated_classes, str):
        return ()
    try:
        names = json.loads(stated_classes)
    except ValueError:
        names = stated_classes.split(",")
    return tuple(str(name).strip() for name in names) if isinstance(names, list) else ()


def _make_tensor_column(
    path: Path, name: str, entry: Any, data_start: int, data_size: int, limits: Limits
) -> Column:
    """Make a column of one tensor of a safetensors file; its values are read from the file when it is loaded.

    `entry` is its part of the header: {"dtype": "F32", "shape": [...], "data_offsets": [start, stop]}, with offsets
    counted from `data_start` in the file. DataError where the type is not read, or where the tensor does not lie within
    the `data_size` bytes of data or needs more memory than `limits` allow. `stop` is the first byte after the tensor. A
    missing key raises KeyError, which the caller turns into a DataError.
    """
    type_name = entry["dtype"]
    shape = tuple(int(size) for size in entry["shape"])
    start, stop = (int(offset) for offset in entry["data_offsets"])
    if type_name not in SAFETENSORS_TYPES:
        raise file_error(
            path, f"tensor `{display_name(name)}` has dtype {display_name(type_name)}, which is not read."
        )
    dtype = np.dtype(SAFETENSORS_TYPES[type_name])  # "F32" -> "<f4"; 16 bits without a sign for "BF16"
    byte_count = math.prod(shape) * dtype.itemsize
    has_negative_number = any(number < 0 for number in (start, *shape))
    if has_negative_number or stop - start != byte_count or stop > data_size:
        raise file_error(
            path, f"tensor `{display_name(name)}` does not lie inside the file; is it truncated?"
        )
    # for the bytes that are read, and for a converted copy
    limits.check_memory(path, 2 * byte_count, f"tensor `{display_name(name)}`")
    is_bfloat16 = type_name == "BF16"

    def load() -> np.ndarray:
        with reporting_damage(path, "safetensors"), path.open("rb") as stream:
            stream.seek(data_start + start)
            values = np.frombuffer(bytearray(stream.read(byte_count)), dtype=dtype).reshape(shape)
        if is_bfloat16:  # numpy has no such type: its bits are the upper half of those of a float32
            return (values.astype("<u4") << 16).view("<f4")
        return values

    return Column(shape=shape, kind="bfloat16" if is_bfloat16 else str(dtype), load=load)


def open_torch(path: Path, limits: Limits) -> OpenedTable:
    """Open a dict of tensors (or one tensor, called "array") saved by torch, without running code from the file.

    Entries that are no dense tensors are left out; a list under "classes" holds the class names. DataError where the
    file is damaged, holds other objects, or needs more memory than `limits` allow. MissingDependencyError without
    torch. All tensors are loaded here, into main memory; `reporting_damage` turns errors of torch into a DataError.
    """
    # the module; `extra` names the install option for the message where it is missing
    torch = import_optional("torch", feature=f"Reading {display_name(path.name)}", extra="torch")
    with reporting_damage(path, "a torch file of tensors"):
        _check_pickles(path, limits)  # raises DataError for a file that expands to too much
        content = _load_torch(path, torch)
        if isinstance(content, torch.Tensor):
            content = {"array": content}
        if not isinstance(content, dict):
            raise file_error(path, f"must hold a dict of tensors, got {type(content).__name__}.")
        columns = {}
        for name, tensor in content.items():
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:  # strided: dense
                byte_count = tensor.numel() * tensor.element_size()
                # The tensor is in memory already; loading it makes a numpy copy.
                limits.check_memory(path, 2 * byte_count, f"tensor `{display_name(name)}`")
                kind = str(tensor.dtype).removeprefix("torch.")
                load = partial(_tensor_to_numpy, tensor)
                columns[str(name)] = Column(shape=tuple(tensor.shape), kind=kind, load=load)
    class_names = content.get("classes")
    classes = tuple(map(str, class_names)) if isinstance(class_names, (list, tuple)) else ()
    return OpenedTable(path=path, format="pt", columns=columns, classes=classes)


def _check_pickles(path: Path, limits: Limits) -> None:
    """Raise DataError where a torch file decompresses to too much, or has too many pickle instructions.

    The instructions rebuild the tensors; they are counted here and not run. A file of torch 1.6 or later is a zip
    archive with the instructions in members that end in .pkl; an older one begins with five pickles
    (`_PICKLE_COUNT_OF_OLD_FORMAT`). `_check_instructions` raises where there are too many.
    """
    if zipfile.is_zipfile(path):
        limits.check_memory(path, unpacked_archive_size(path))
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".pkl"):
                    with archive.open(member) as stream:
                        _check_instructions(path, pickletools.genops(stream))
        return
    limits.check_memory(path, path.stat().st_size)
    with path.open("rb") as stream:
        # `genops` stops at the end of a pickle, where the next one begins in the same stream
        pickles = (pickletools.genops(stream) for _ in range(_PICKLE_COUNT_OF_OLD_FORMAT))
        _check_instructions(path, chain.from_iterable(pickles))


def _check_instructions(path: Path, instructions: Iterable[Any]) -> None:
    """Raise DataError where there are more instructions than a dict of tensors needs."""
    if next(islice(instructions, _MAX_INSTRUCTIONS, None), None) is not None:
        raise file_error(
            path, f"has more than {_MAX_INSTRUCTIONS:,} instructions, which no dict of tensors needs."
        )


def _load_torch(path: Path, torch: Any) -> Any:
    """Load a torch file without running code, and return the tensor or the dict that it holds.

    `torch` is the imported module. DataError where torch refuses the file because it holds more than tensors; any other
    exception of torch.load is passed on, and the caller makes it a DataError. Tensors come into main memory, whatever
    device they were saved from.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of odd pickle protocols and fails right after
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # these words are in torch's messages on anything but tensors
        if any(word in str(error) for word in _TORCH_REFUSAL_WORDS):
            raise file_error(
                path,
                "holds more than tensors (pickled Python objects), which can run code when opened and is not "
                "read. Save a dict of tensors: torch.save({'logits': ..., 'labels': ...}, path).",
            ) from error
        raise


def _tensor_to_numpy(tensor: Any) -> np.ndarray:
    """Copy a tensor to numpy, which has no bfloat16."""
    values = tensor.detach()
    if "bfloat16" in str(values.dtype):
        values = values.float()
    return np.array(values.numpy())
