"""Records as JSON, read back only if every field has its type and lies in its range.

A record is a frozen dataclass that inherits from `Stored`. The annotation of a field says what it may hold;
`Within(...)` in that annotation adds a range, the dtype of an array, or that infinities or NaN are allowed.

JSON has no infinities and no NaN: they are written as "inf", "-inf" and null. A dict is written as a list of pairs,
since keys in JSON are always text. Python's `repr` of all other numbers is exact.
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

_MAX_LENGTH = 64_000_000  # characters; a record of a thousand groups takes about so many
_LARGEST_WHOLE = 2**53  # beyond it a float64 cannot tell whole numbers apart
_REMEDY = "The text was changed or damaged, or comes from another version: make it again."


class Within(NamedTuple):
    """What an annotation adds to a type, e.g. `Annotated[float, Within(0, 1)]`. It applies to every number inside.

    The range is closed unless `closed` is False. `dtype` is the type of an array's entries.
    """

    low: float = -math.inf
    high: float = math.inf
    closed: bool = True
    infinite: bool = False
    nan: bool = False
    dtype: type = float

    def allows(self, x: float) -> bool:
        """True if this number lies in the range, and is finite unless infinities are allowed."""
        inside = self.low <= x <= self.high if self.closed else self.low < x < self.high
        return inside and (self.infinite or math.isfinite(x))

    def __str__(self) -> str:
        if not (math.isfinite(self.low) or math.isfinite(self.high)):
            return "number"
        ends = "" if self.closed else ", the ends excluded"
        return f"number from {self.low:g} to {self.high:g}{ends}"


Share = Annotated[float, Within(0, 1)]
Chance = Annotated[float, Within(0, 1, closed=False)]
Finite = Annotated[float, Within()]
_ANY_NUMBER_BUT_NAN = Within(infinite=True)  # for fields whose annotation states no range


class Stored(Printable):
    """A frozen dataclass that goes to JSON and comes back, records within it included."""

    _noun: ClassVar[str]  # what a message calls it
    _number: ClassVar[int] = 1  # version of the format; it rises when fields change
    _remedy: ClassVar[str] = "Make it again."  # what to do with a record of another version
    _has_checksum: ClassVar[bool] = False  # True for records that make decisions: edits must be detected

    def to_json(self) -> str:
        """Write the record as JSON, which `from_json` reads."""
        record = _to_plain(self)
        if self._has_checksum:
            record["checksum"] = _checksum(record)
        return json.dumps(record, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raise DataError, which names the field, for anything else.

        Where the class has checksums (`_has_checksum`), the text must have one, and it must be that of the other
        fields. A text without a checksum is refused too.
        """
        record = parse_json(f"{cls.__name__}.from_json", text)
        checksum = None
        if cls._has_checksum and isinstance(record, dict):
            checksum = record.pop("checksum", None)
        # checks the types and ranges of all fields, raises DataError; `path` begins the names of fields in messages
        restored: Self = _restore(cls, record, path=cls.__name__, rule=_ANY_NUMBER_BUT_NAN)
        if cls._has_checksum:
            # Of the restored fields: the text may write a number in another way. Or of the fields as they are in the
            # text: `_restore` brings a record in an older format to today's fields, which have another checksum.
            accepted_checksums = (_checksum(_to_plain(restored)), _checksum(record))
            if checksum not in accepted_checksums:
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

    @classmethod
    def _upgraded(cls, record: Any) -> Any:
        """The parsed JSON of an older format that can still be read, in today's format; anything else unchanged."""
        return record

    def _readable(self) -> dict[str, Any]:
        """Extra entries for people who read the JSON, computed from the fields; none has the name of a field.

        When the JSON is read back they must agree with the fields.
        """
        return {}

    def _rules(self) -> dict[str, Any]:
        """Rules over several fields: a sentence for each, and True if it holds."""
        return {}


def _checksum(record: dict[str, Any]) -> str:
    """SHA-256 of the fields, whatever their order in the text, its white space, or how it writes a number.

    It finds accidents and edits, also of numbers that no other number depends on. It is not a signature: whoever
    forges a whole record can compute it.
    """
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_record_text(path: Any) -> str:
    """Read the text of a regular file of bounded length; raise DataError for anything else, such as a pipe."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{file.name}: there is no such file.")
    if file.stat().st_size > _MAX_LENGTH:
        raise DataError(f"{file.name}: is longer than {_MAX_LENGTH // 10**6} MB, which no stored record is.")
    return file.read_text(encoding="utf-8", errors="replace")


def parse_json(source: str, text: Any) -> Any:
    """Parse JSON of bounded length and depth; raise DataError for repeated keys and numbers that are not finite.

    `source` is the function or file that a message names.
    """
    if not isinstance(text, (str, bytes)) or len(text) > _MAX_LENGTH:  # 64 MB
        raise DataError(f"{source}: takes JSON text of at most {_MAX_LENGTH // 10**6} MB.")
    try:
        # both hooks raise: for a key that occurs twice in an object, and for NaN, Infinity and -Infinity
        return json.loads(text, object_pairs_hook=refuse_repeated_keys, parse_constant=_refuse_constant)
    except RecursionError:
        raise DataError(f"{source}: is nested too deeply to be a stored record.") from None
    except ValueError as error:
        raise DataError(f"{source}: not JSON: {str(error)[:120]}.") from None


def refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of a JSON object; raise ValueError if a name occurs twice, since either value could be meant."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the name {name[:60]!r} stands twice in one object")
        values[name] = value
    return values


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _to_plain(x: Any) -> Any:
    """Convert a field or a whole record to what JSON can hold: dicts, lists, text, finite numbers and None.

    Infinities become "inf" and "-inf", NaN becomes None, a dict a list of pairs. A `Stored` record also gets its format
    ("abstain.Threshold/3") and, for people who read the JSON, entries that are computed from its fields (`_readable`);
    their names differ from those of the fields. Raises TypeError for other objects.
    """
    if dataclasses.is_dataclass(x):
        record: Any = x
        fields = {field.name: _to_plain(getattr(record, field.name)) for field in dataclasses.fields(record)}
        if isinstance(record, Stored):
            return {"format": record._format(), **record._readable(), **fields}
        return fields
    if isinstance(x, dict):  # keys may be numbers, which an object of JSON cannot have
        return [[_to_plain(key), _to_plain(value)] for key, value in x.items()]
    if isinstance(x, (np.ndarray, np.generic)):
        return _to_plain(x.tolist())
    if isinstance(x, (list, tuple)):
        return [_to_plain(value) for value in x]
    if isinstance(x, float) and not math.isfinite(x):
        return None if math.isnan(x) else str(x)
    if x is None or isinstance(x, (str, int, float)):
        return x
    raise TypeError(f"to_json: cannot write {type(x).__name__} (a group label?) as JSON")


def _wrong_value(path: str, rule: str, value: Any) -> DataError:
    """Make the error for a value that breaks a rule; `path` says where it stands, e.g. "Threshold.delta"."""
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return DataError(f"{path} must be {rule}, got {text}. {_REMEDY}")


def _restore(annotation: Any, value: Any, path: str, rule: Within) -> Any:
    """Make a value of the annotated type from its JSON form; raise DataError if it has another form.

    Raises TypeError for an annotation that records do not support.

    Parameters
    ----------
    annotation : type
        What the field holds: a dataclass, array, dict, tuple, Literal, bool, str, int, float, Any, or `X | None` of
        one of them. `Annotated[X, Within(...)]` replaces `rule`.
    value
        The parsed JSON.
    path : str
        Where the value stands, for messages, e.g. "Threshold.levels[3]".
    rule : Within
        The range of the numbers inside.
    """
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Annotated:
        inner_type, inner_rule = arguments  # exactly two in the records: X and one Within
        return _restore(inner_type, value, path, inner_rule)
    if annotation is Any:
        return value  # unchecked; such as the label of a group
    if dataclasses.is_dataclass(annotation):
        return _restore_record(annotation, value, path)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _restore(arguments[0], value, path, rule)  # the annotation is `X | None`
    if origin is Literal:
        if value not in arguments or isinstance(value, bool):  # True equals the allowed value 1
            raise _wrong_value(path, f"one of {', '.join(map(str, arguments))}", value)
        return value
    if annotation is np.ndarray:
        return _restore_array(value, path, rule)
    if origin is dict:
        _, value_annotation = arguments
        return _restore_dict(value_annotation, value, path, rule)
    if origin is tuple:
        return _restore_tuple(arguments, value, path, rule)
    if annotation in (bool, str):
        if type(value) is not annotation:
            raise _wrong_value(path, "true or false" if annotation is bool else "text", value)
        return value
    if annotation in (int, float):
        return _restore_number(annotation, value, path, rule)
    raise TypeError(f"{path}: records hold no {annotation}")


def _restore_dict(value_annotation: Any, value: Any, path: str, rule: Within) -> dict[Any, Any]:
    """Make a dict from a list of pairs, [key, value]; raise DataError for another form, or a key that occurs twice.

    Keys are taken as they are; `value_annotation` is the type of the values, `rule` the range of numbers in them, and
    `path` names the dict in messages.
    """
    pairs: list[Any] = value if isinstance(value, list) else [None]  # anything else fails the next check
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise _wrong_value(path, "a list of pairs", value)
    if any(isinstance(key, (list, dict)) for key, _ in pairs):  # no keys of a dictionary
        raise _wrong_value(path, "a list of pairs", value)
    if len({key for key, _ in pairs}) < len(pairs):
        raise DataError(f"{path}: a name stands there twice. {_REMEDY}")
    return {
        key: _restore(value_annotation, item, f"{path}[{i}]", rule) for i, (key, item) in enumerate(pairs)
    }


def _restore_tuple(arguments: tuple[Any, ...], value: Any, path: str, rule: Within) -> tuple[Any, ...]:
    """Make a tuple from a list; raise DataError if it is not a list, or has the wrong length.

    `arguments` are those of the annotation: one type per entry, or `(X, ...)` for any length. `rule` is the range of
    the numbers inside, and `path` names the tuple in messages.
    """
    has_any_length = arguments[-1] is Ellipsis  # tuple[X, ...]
    if not isinstance(value, list) or not (has_any_length or len(value) == len(arguments)):
        raise _wrong_value(path, "a list" if has_any_length else f"a list of {len(arguments)}", value)
    annotations = arguments[:1] * len(value) if has_any_length else arguments
    return tuple(
        _restore(annotation, item, f"{path}[{i}]", rule)
        for i, (annotation, item) in enumerate(zip(annotations, value))
    )


def _restore_record(record_type: Any, value: Any, path: str) -> Any:
    """Make a dataclass from its JSON object; raise DataError, which starts with `path`, if it does not fit.

    No field may be missing and none unknown. A `Stored` record must also have the format of this version, its extra
    entries for readers must agree with its fields, and its rules over several fields must hold.
    """
    is_stored = issubclass(record_type, Stored)
    if is_stored:
        value = record_type._upgraded(value)  # from an older format that can still be read; else unchanged
    # a name and a number, such as "abstain.Threshold/3"
    if is_stored and not (isinstance(value, dict) and value.get("format") == record_type._format()):
        got = repr(value.get("format") if isinstance(value, dict) else value)[:60]
        raise DataError(
            f"{path}: not {record_type._noun} written by `to_json` of this version ({record_type._format()!r}), "
            f"got {got}. {record_type._remedy}"
        )
    if not isinstance(value, dict):
        raise _wrong_value(path, "a record", value)
    annotations = typing.get_type_hints(record_type, include_extras=True)  # by field, such as `float | None`
    field_names = [field.name for field in dataclasses.fields(record_type)]
    for name in field_names:
        if name not in value:
            raise DataError(f"{path}.{name} is missing. {_REMEDY}")
    # numbers of fields whose annotation states no range may be anything but NaN
    record = record_type(
        **{
            name: _restore(annotations[name], value[name], f"{path}.{name}", rule=_ANY_NUMBER_BUT_NAN)
            for name in field_names
        }
    )
    # what `_to_plain` wrote beside the fields; these entries may be missing in the text, but not differ
    derived_entries = {"format": record_type._format(), **record._readable()} if is_stored else {}
    for name, entry in value.items():
        if name not in field_names and name not in derived_entries:
            raise DataError(f"{path} has no field {name[:60]!r}. {_REMEDY}")
        if name in derived_entries and entry != derived_entries[name]:
            raise _wrong_value(f"{path}.{name}", repr(derived_entries[name]), entry)
    rules = record._rules() if is_stored else {}  # a sentence for each rule, and whether it holds
    for rule, is_kept in rules.items():
        if not is_kept:
            raise DataError(f"{path}: {rule} {_REMEDY}")
    return record


def _restore_number(number_type: Any, value: Any, path: str, rule: Within) -> Any:
    """Make an int or a float (`number_type`) in the range of `rule`; raise DataError for anything else.

    A float may be written as a whole number, and as "inf" or "-inf" where `rule` allows infinities.
    """
    number = float(value) if rule.infinite and value in ("inf", "-inf") else value
    is_whole = isinstance(number, int) and not isinstance(number, bool) and abs(number) <= _LARGEST_WHOLE
    has_type = is_whole or (number_type is float and isinstance(number, float))
    if not has_type or not rule.allows(number):
        raise _wrong_value(path, f"a {'whole ' if number_type is int else ''}{rule}", value)
    return number_type(number)


def _restore_array(value: Any, path: str, rule: Within) -> np.ndarray:
    """Make a vector from a list of numbers or booleans, of the dtype and in the range of `rule`.

    null is NaN where `rule` allows it, which only arrays of floats do. Booleans must be true or false in the JSON, and
    other entries numbers. `path` names the array in messages. Raises DataError for anything else.
    """
    if not isinstance(value, list):
        raise _wrong_value(path, "a list", value)
    # `_restore_number` checks the range, which booleans do not have
    restore_entry = _restore if rule.dtype is bool else _restore_number
    entries = []
    for i, entry in enumerate(value):
        if entry is None and rule.nan:
            entries.append(math.nan)
        else:
            entries.append(restore_entry(rule.dtype, entry, f"{path}[{i}]", rule))
    return np.asarray(entries, dtype=np.int64 if rule.dtype is int else rule.dtype)
