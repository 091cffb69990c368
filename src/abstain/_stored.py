"""Records as JSON: written whole, and read back only where every field has its type and its range.

A record is a frozen dataclass that inherits from `Stored`. What a field may hold stands in its annotation, and in
`Within(...)` beside it where the type says too little: a range, the dtype of an array, whether infinities or NaN are
meant.

JSON has no infinities and no NaN: they are written as "inf", "-inf" and null. A dict is written as a list of pairs,
since JSON knows text as keys only. Python's `repr` of all other numbers is exact.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
import typing
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, NoReturn, Self

import numpy as np

from abstain._outputs import check_ending, replacing
from abstain._tables import Printable
from abstain.errors import DataError

_MOST = 64_000_000  # characters; a record of a thousand groups takes about so many
_LARGEST = 2**53  # of whole numbers: beyond it a double cannot tell them apart
_REMEDY = "The text was changed or damaged, or comes from another version: make it again."


class Within(NamedTuple):
    """What an annotation adds to a type: `Annotated[float, Within(0, 1)]`; it speaks of every number inside.

    The range is closed unless the `ends` are left out; arrays have a `dtype`.
    """

    low: float = -math.inf
    high: float = math.inf
    ends: bool = True
    infinite: bool = False
    nan: bool = False
    dtype: type = float

    def holds(self, x: float) -> bool:
        """Is this number allowed?"""
        inside = self.low <= x <= self.high if self.ends else self.low < x < self.high
        return inside and (self.infinite or math.isfinite(x))

    def __str__(self) -> str:
        if not (math.isfinite(self.low) or math.isfinite(self.high)):
            return "number"
        return f"number from {self.low:g} to {self.high:g}{'' if self.ends else ', the ends left out'}"


Share = Annotated[float, Within(0, 1)]
Chance = Annotated[float, Within(0, 1, ends=False)]
Finite = Annotated[float, Within()]
_ANY = Within(infinite=True)  # where nothing is said


class Stored(Printable):
    """A frozen dataclass that goes to JSON and comes back, records within it included."""

    _noun: ClassVar[str]  # what it is called in a message
    _number: ClassVar[int] = 1  # of the format; it rises when fields change
    _has_checksum: ClassVar[bool] = False  # for records that decide: no edited number may go unnoticed

    def to_json(self) -> str:
        """All of it as JSON; `from_json` gives it back."""
        record = _plain(self)
        if self._has_checksum:
            record["checksum"] = _checksum(record)
        return json.dumps(record, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote; anything else is refused, and the message names the field."""
        record = parse_json(f"{cls.__name__}.from_json", text)
        checksum = None
        if cls._has_checksum and isinstance(record, dict):
            checksum = record.pop("checksum", None)
        restored: Self = _restored(cls, record, cls.__name__, _ANY)
        if cls._has_checksum and checksum != _checksum(_plain(restored)):
            raise DataError(f"{cls.__name__}: `checksum` must be that of the other fields. {_REMEDY}")
        return restored

    def save(self, path: Any) -> None:
        """Write JSON to a file, whole or not at all; its name ends in .json or has no ending."""
        check_ending(path, "json")
        with replacing(path) as stream:
            stream.write(self.to_json().encode())

    @classmethod
    def load(cls, path: Any) -> Self:
        """Read what `save` wrote."""
        return cls.from_json(read_record_text(path))

    @classmethod
    def _format(cls) -> str:
        return f"abstain.{cls.__name__}/{cls._number}"

    def _readable(self) -> dict[str, Any]:
        """What is written beside the fields for people to read; it must agree with them when it is read back."""
        return {}

    def _rules(self) -> dict[str, Any]:
        """What the fields taken together must keep, and whether they do."""
        return {}


def _checksum(record: dict[str, Any]) -> str:
    """SHA-256 of the fields, whatever their order in the text, its white space, or how it writes a number.

    It finds slips and edits, also of numbers that no other number depends on. It is no signature: who forges a whole
    record can compute it.
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_record_text(path: Any) -> str:
    """The text of a file that may be anything: bounded, and never waited for."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file.name}: there is no such file.")
    if file.stat().st_size > _MOST:
        raise DataError(f"{file.name}: is longer than {_MOST // 10**6} MB, which no stored record is.")
    return file.read_text(encoding="utf-8", errors="replace")


def parse_json(name: str, text: Any) -> Any:
    """JSON without surprises: bounded in length and depth, no key twice, no number that is not finite."""
    if not isinstance(text, (str, bytes)) or len(text) > _MOST:
        raise DataError(f"{name}: takes JSON text of at most {_MOST // 10**6} MB.")
    try:
        return json.loads(text, object_pairs_hook=refuse_repeated_keys, parse_constant=_refuse)
    except RecursionError:
        raise DataError(f"{name}: is nested too deeply to be a stored record.") from None
    except ValueError as error:
        raise DataError(f"{name}: not JSON: {str(error)[:120]}.") from None


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of two values under one name nobody knows which is meant."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name[:60]!r} stands twice in one object")
        found[name] = value
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _plain(x: Any) -> Any:
    if dataclasses.is_dataclass(x):
        own = {f.name: _plain(getattr(x, f.name)) for f in dataclasses.fields(x)}
        return {"format": x._format(), **x._readable(), **own} if isinstance(x, Stored) else own
    if isinstance(x, dict):
        return [[_plain(key), _plain(value)] for key, value in x.items()]
    if isinstance(x, (np.ndarray, np.generic)):
        return _plain(x.tolist())
    if isinstance(x, (list, tuple)):
        return [_plain(v) for v in x]
    if isinstance(x, float) and not math.isfinite(x):
        return None if math.isnan(x) else str(x)
    if x is None or isinstance(x, (str, int, float)):
        return x
    raise TypeError(f"to_json: cannot write {type(x).__name__} (a group label?) as JSON")


def _wrong(at: str, rule: str, value: Any) -> DataError:
    got = repr(value)
    got = got if len(got) <= 60 else got[:57] + "..."
    return DataError(f"{at} must be {rule}, got {got}. {_REMEDY}")


def _restored(kind: Any, value: Any, at: str, rule: Within) -> Any:
    """A value of that type from its JSON form; `at` says where it stands."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _restored(parts[0], value, at, parts[1])
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, at)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in parts:
            return None
        return _restored(parts[0], value, at, rule)  # X or None
    if origin is Literal:
        if value not in parts or isinstance(value, bool):
            raise _wrong(at, f"one of {', '.join(map(str, parts))}", value)
        return value
    if kind is np.ndarray:
        return _array(value, at, rule)
    if origin is dict:
        pairs: list[Any] = value if isinstance(value, list) else [None]
        if not all(isinstance(x, list) and len(x) == 2 and not isinstance(x[0], (list, dict)) for x in pairs):
            raise _wrong(at, "a list of pairs", value)
        if len({key for key, _ in pairs}) < len(pairs):
            raise DataError(f"{at}: a name stands there twice. {_REMEDY}")
        return {key: _restored(parts[1], x, f"{at}[{i}]", rule) for i, (key, x) in enumerate(pairs)}
    if origin is tuple:
        many = parts[-1] is Ellipsis
        if not isinstance(value, list) or not (many or len(value) == len(parts)):
            raise _wrong(at, "a list" if many else f"a list of {len(parts)}", value)
        each = parts[:1] * len(value) if many else parts
        return tuple(_restored(one, x, f"{at}[{i}]", rule) for i, (one, x) in enumerate(zip(each, value)))
    if kind in (bool, str):
        if type(value) is not kind:
            raise _wrong(at, "true or false" if kind is bool else "text", value)
        return value
    if kind in (int, float):
        return _numeral(kind, value, at, rule)
    raise TypeError(f"{at}: records hold no {kind}")


def _record(kind: Any, value: Any, at: str) -> Any:
    stored = issubclass(kind, Stored)
    if stored and not (isinstance(value, dict) and value.get("format") == kind._format()):
        found = repr(value.get("format") if isinstance(value, dict) else value)[:60]
        told = f"not {kind._noun} written by `to_json` of this version"
        raise DataError(f"{at}: {told} ({kind._format()!r}), got {found}. Make it again.")
    if not isinstance(value, dict):
        raise _wrong(at, "a record", value)
    hints = typing.get_type_hints(kind, include_extras=True)
    known = [f.name for f in dataclasses.fields(kind)]
    for name in known:
        if name not in value:
            raise DataError(f"{at}.{name} is missing. {_REMEDY}")
    made = kind(**{name: _restored(hints[name], value[name], f"{at}.{name}", _ANY) for name in known})
    beside = {"format": kind._format(), **made._readable()} if stored else {}
    for name, x in value.items():
        if name not in known and name not in beside:
            raise DataError(f"{at} has no field {name[:60]!r}. {_REMEDY}")
        if name in beside and x != beside[name]:
            raise _wrong(f"{at}.{name}", repr(beside[name]), x)
    for rule, kept in made._rules().items() if stored else ():
        if not kept:
            raise DataError(f"{at}: {rule} {_REMEDY}")
    return made


def _numeral(kind: Any, value: Any, at: str, rule: Within) -> Any:
    number = float(value) if rule.infinite and value in ("inf", "-inf") else value
    whole = isinstance(number, int) and not isinstance(number, bool) and abs(number) <= _LARGEST
    if not (whole or (kind is float and isinstance(number, float))) or not rule.holds(number):
        raise _wrong(at, f"a {'whole ' if kind is int else ''}{rule}", value)
    return kind(number)


def _array(value: Any, at: str, rule: Within) -> np.ndarray:
    if not isinstance(value, list):
        raise _wrong(at, "a list", value)
    one = _restored if rule.dtype is bool else _numeral
    found = [
        math.nan if x is None and rule.nan else one(rule.dtype, x, f"{at}[{i}]", rule)
        for i, x in enumerate(value)
    ]
    return np.asarray(found, dtype=np.int64 if rule.dtype is int else rule.dtype)
