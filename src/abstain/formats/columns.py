"""What a file holds: named columns, loaded one by one, and which of them has which role.

Names state the role, the user's flags override it, and values are never looked at to guess it.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abstain._roles import COLUMN_NAMES, normalise_name
from abstain._tables import is_number
from abstain.errors import DataError
from abstain.formats.roles import (
    AGREEMENT,
    CLASS_COLUMN_PATTERNS,
    ROLES_WITH_SEVERAL_COLUMNS,
    RoleColumns,
    columns_by_role,
    order_class_columns,
)
from abstain.formats.safety import display_name, file_error

TRUTH_WORDS = dict.fromkeys(("true", "1", "yes", "t"), 1.0) | dict.fromkeys(("false", "0", "no", "f"), 0.0)
"""Words for true (1) and false (0), in lower case; an empty cell is NaN."""
TRUTH_WORDS[""] = np.nan
_MAX_PREVIEWED_COLUMNS = 20
# Roles whose column holds one value per row; a list of attempts, for example, is none.
_ROLES_WITH_ONE_VALUE = (
    "correct",
    "loss",
    "error",
    "prediction",
    "confidence",
    "abstained",
    "sample_weight",
    "cost",
)


@dataclass(frozen=True)
class TextValues:
    """A column of text: each distinct text once, and which one stands in each row.

    Parameters
    ----------
    code_of_row : array of int, shape (n,)
        The text of row i is `distinct_texts[code_of_row[i]]`.
    distinct_texts : tuple of str
        Each text once.

    Examples
    --------
    >>> words = TextValues.of(["law", "art", "law"])
    >>> words.distinct_texts, words.code_of_row.tolist(), words.row(2)
    (('law', 'art'), [0, 1, 0], 'law')
    """

    code_of_row: np.ndarray
    distinct_texts: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextValues:
        """Make a column of one text per row."""
        code_of_text: dict[str, int] = {}
        codes = np.fromiter(
            (code_of_text.setdefault(text, len(code_of_text)) for text in texts), dtype=np.int64
        )
        return cls(codes, tuple(code_of_text))

    @classmethod
    def of_array(cls, array: np.ndarray) -> TextValues:
        """Make a column of a numpy array of fixed-width strings (str or UTF-8 bytes)."""
        values, codes = np.unique(array.reshape(-1), return_inverse=True)
        texts = (value.decode("utf-8") if isinstance(value, bytes) else value for value in values.tolist())
        return cls(codes.astype(np.int64), tuple(texts))

    def __len__(self) -> int:
        return len(self.code_of_row)

    def __getitem__(self, rows: np.ndarray) -> TextValues:
        return TextValues(self.code_of_row[rows], self.distinct_texts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return `texts()`, so that numpy and functions that take arrays read the texts."""
        return self.texts() if dtype is None else self.texts().astype(dtype)

    def without_unused_texts(self) -> TextValues:
        """Return the column without texts that stand in no row; the others keep their order."""
        used_codes, code_of_row = np.unique(self.code_of_row, return_inverse=True)
        texts = tuple(self.distinct_texts[code] for code in used_codes.tolist())
        return TextValues(code_of_row.astype(np.int64), texts)

    def row(self, index: int) -> str:
        """Return the text in one row."""
        return self.distinct_texts[int(self.code_of_row[index])]

    def stripped(self) -> TextValues:
        """Return the column without blanks and line ends around its texts, as in a text table."""
        texts = [text.strip() for text in self.distinct_texts]
        if texts == list(self.distinct_texts):
            return self
        merged = TextValues.of(texts)  # texts that differed in blanks alone are one
        return TextValues(merged.code_of_row[self.code_of_row], merged.distinct_texts)

    def positions_in(self, order: Iterable[str]) -> np.ndarray:
        """Return the position of each row's text in a sequence of texts; -1 for a text that is not in it."""
        position_of_text = {text: position for position, text in enumerate(order)}
        positions = [position_of_text.get(value, -1) for value in self.distinct_texts]
        return np.array(positions, dtype=np.int64)[self.code_of_row]

    def texts(self) -> np.ndarray:
        """Return one text per row, as an array of objects: with a fixed width, one long text would cost n times."""
        return np.array(self.distinct_texts, dtype=object)[self.code_of_row]


Values = np.ndarray | TextValues
"""The values of a column: an array of numbers (or of rows of numbers), or texts."""


@dataclass(frozen=True)
class Column:
    """A named array of a file, read when it is needed.

    Parameters
    ----------
    shape : tuple of int
        Known without reading the values. Of lists of several lengths, the second number is that of the longest.
    kind : str
        What it holds, for people: a dtype, "numbers" or "text".
    load : callable
        Reads the values.
    texts : TextValues, optional
        The cells of a table as they are written, where numbers would not keep them: 0012.
    has_several_lengths : bool
        Whether its rows are lists of several lengths.

    Examples
    --------
    >>> print(Column((3, 10), "float32", load=lambda: np.zeros((3, 10))))
    3 x 10 float32
    >>> print(Column((3, 10), "text", load=lambda: np.zeros(0), has_several_lengths=True))
    3 lists of text
    """

    shape: tuple[int, ...]
    kind: str
    load: Callable[[], Values] = field(repr=False)
    texts: TextValues | None = field(default=None, repr=False)
    has_several_lengths: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the column holds texts, by its `kind`."""
        return self.kind == "text"

    @classmethod
    def of(cls, values: Values) -> Column:
        """Make a column of one value per row that is in memory already."""
        kind = "text" if isinstance(values, TextValues) else "numbers"
        return cls(shape=(len(values),), kind=kind, load=lambda: values)

    def rows(self, selection: np.ndarray) -> Column:
        """Return the column with only these rows: a boolean mask, or row numbers in the order wanted."""
        texts = None if self.texts is None else self.texts[selection]
        count = int(np.count_nonzero(selection)) if selection.dtype == bool else len(selection)
        return replace(self, shape=(count, *self.shape[1:]), load=lambda: self.load()[selection], texts=texts)

    def negated(self) -> Column:
        """Return the same numbers with the other sign; text stays as it is, to be refused where numbers are needed."""

        def load() -> Values:
            values = self.load()
            return values if isinstance(values, TextValues) else -np.asarray(values, np.float64)

        return Column(shape=self.shape, kind=self.kind, load=load)

    def divided(self, divisor: float) -> Column:
        """Return the same numbers divided by `divisor`; text stays as it is, to be refused where numbers are needed."""

        def load() -> Values:
            values = self.load()
            return values if isinstance(values, TextValues) else np.asarray(values, np.float64) / divisor

        return Column(shape=self.shape, kind=self.kind, load=load)

    def less(self, subtrahend: float) -> Column:
        """Return the same numbers less `subtrahend`; text stays as it is, to be refused where numbers are needed."""

        def load() -> Values:
            values = self.load()
            return values if isinstance(values, TextValues) else np.asarray(values, np.float64) - subtrahend

        return Column(shape=self.shape, kind=self.kind, load=load)

    def as_texts(self) -> np.ndarray:
        """Return one text for each row, as it is written in the file; whole numbers without decimals."""
        return as_texts(self.texts or self.load())

    def __str__(self) -> str:
        if self.has_several_lengths:
            return f"{self.shape[0]} lists of {self.kind}"
        return f"{' x '.join(map(str, self.shape)) or 'one'} {self.kind}"


def _may_say_which_answers_are_wrong(column: Column) -> bool:
    """Return whether a column that is called `error` may hold errors of answers: numbers, or words of true and false.

    Most often it holds the messages of failed calls, of which there may be none; a column that is empty, or of texts
    none of which is a number or a word of true or false, says nothing of the answers. True for a column that cannot be
    loaded: whatever reads it says why.
    """
    try:
        values = column.load()
    except DataError:  # objects, or names alone were read
        return True
    if not isinstance(values, TextValues):
        return bool(has_value(values).any())
    texts = [text.strip().lower() for text in values.distinct_texts]
    return any(text and (text in TRUTH_WORDS or is_number(text)) for text in texts)


def as_texts(values: Values) -> np.ndarray:
    """Return one text for each row; whole numbers without decimals."""
    if isinstance(values, TextValues):
        return values.texts()
    return np.array([text_or_none(value) for value in values.reshape(-1).tolist()], dtype=str)


def as_array(values: Values) -> np.ndarray:
    """Return one value per row as an array; words as an array of texts."""
    return values.texts() if isinstance(values, TextValues) else values


def text_or_none(value: Any) -> str | None:
    """Return a name or a number as text, a whole number without decimals; None for everything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, (str, int, float)) else None


def has_value(values: Values) -> np.ndarray:
    """Return True for each row that holds anything: a text that is not blank, or a number that is not NaN."""
    if isinstance(values, TextValues):
        return np.array([bool(text.strip()) for text in values.distinct_texts], bool)[values.code_of_row]
    return ~np.isnan(np.asarray(values, np.float64).reshape(-1))


@dataclass(frozen=True)
class LogFacts:
    """What the log of a harness says of its columns; the user can overrule each.

    Parameters
    ----------
    tool : str
        Name of the harness that wrote it.
    column_of_role : dict
        Role -> column; no "correct" where several columns could say it.
    possible_correctness_columns, possible_confidence_columns : tuple of str
        Columns that may say how right an answer is, and columns that may be confidences. All those confidences are read
        unless the user names others, and the first ranks the answers. Readers may name columns that the log does not
        have; `make_log_source` takes these out.
    word_grade_columns : tuple of str
        Columns that grade answers by words whose meaning the user has to state.
    answered_column_by_correctness : dict
        Column of correctness -> column that says whether there was an answer, where the former differ in that.
    excluded_confidences_by_correctness : dict
        Column of correctness -> confidences of another answer than the one it judges; they are not offered with it.
    variant_column : str
        A column that names filters: the same answers, read in several ways. Empty where there is none.
    task, model : str
        What was asked, and which model answered, where the file says it.
    model_column : str
        A column that names the model of each answer, where the file holds several. Empty where there is none.
    descriptions : dict
        Column -> what it is, in words.
    notes : tuple of str
        What to know before trusting a number.

    Examples
    --------
    >>> LogFacts("Inspect", {"correct": "match"}, ("match",)).column_of_role
    {'correct': 'match'}
    """

    tool: str
    column_of_role: dict[str, str]
    possible_correctness_columns: tuple[str, ...] = ()
    possible_confidence_columns: tuple[str, ...] = ()
    word_grade_columns: tuple[str, ...] = ()
    answered_column_by_correctness: dict[str, str] = field(default_factory=dict)
    excluded_confidences_by_correctness: dict[str, tuple[str, ...]] = field(default_factory=dict)
    variant_column: str = ""
    task: str = ""
    model: str = ""
    model_column: str = ""
    descriptions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpenedTable:
    """An opened file, as `open_source` gives it.

    Parameters
    ----------
    path : Path
    format : str
        One of `FORMATS`.
    columns : dict of str to Column
    classes : tuple of str
        Names of the classes, where the file holds them apart from its columns.
    log : LogFacts, optional
        What the harness that wrote it says of its columns; None for a plain table.
    place : str
        Dotted path of the table inside a JSON file; empty where the file is the table.
    tables : tuple of str
        Dotted paths of the tables where a JSON file holds several; the names of their columns begin with them.

    Examples
    --------
    >>> column = Column((2,), "numbers", load=lambda: np.array([0.5, 0.25]))
    >>> source = OpenedTable(Path("t.csv"), "csv", {"confidence": column})
    >>> source.list_columns()
    '`confidence` (2 numbers)'
    >>> source.preview()
    {'column': ['confidence'], 'holds': ['2 numbers'], 'first values': ['0.5, 0.25']}
    """

    path: Path
    format: str
    columns: dict[str, Column]
    classes: tuple[str, ...] = ()
    log: LogFacts | None = None
    place: str = ""
    tables: tuple[str, ...] = ()

    @property
    def is_harness_log(self) -> bool:
        """Whether an evaluation harness wrote the file; False for a plain table."""
        return self.log is not None

    @property
    def facts(self) -> LogFacts:
        """What the log of a harness says of its columns; empty facts for a plain table."""
        return self.log or LogFacts(self.format, {})

    def find_roles(self, stated: Mapping[str, str], kind: str | None = None) -> dict[str, RoleColumns]:
        """Find the columns of each role.

        Parameters
        ----------
        stated : mapping
            Role, by any of its names -> name or pattern of columns, as the user states it.
        kind : str, optional
            The role of an array without a name: "logits", "probs", "confidence" or "labels".

        Returns
        -------
        dict
            Role -> its columns: those that the user stated, then those of the log's facts or, for a plain table, those
            whose names state a role.

        Raises
        ------
        UncertainError
            A stated column does not exist, or two columns state the same role.
        InputError
            A key of `stated` is no role, or two keys mean the same role.
        """
        stated_patterns = columns_by_role(stated)  # by the usual name of each role
        # `facts` is what the log of an evaluation harness says of its columns; empty for a plain table
        pattern_by_role = {
            role: name for role, name in self.facts.column_of_role.items() if role not in stated_patterns
        }
        pattern_by_role |= stated_patterns
        # `_match_columns` raises UncertainError where no column matches
        roles = {role: _match_columns(self, role, pattern) for role, pattern in pattern_by_role.items()}
        if self.is_harness_log:  # a log says which column is which; names of columns do not count
            return roles
        # in place, without changing roles that are there; may raise UncertainError
        self._add_roles_by_name(roles)
        # an array without a name, which readers call "array"
        if kind is not None and "array" in self.columns and kind not in roles:
            roles[kind] = RoleColumns(("array",))
        return roles

    def _add_roles_by_name(self, roles: dict[str, RoleColumns]) -> None:
        """Add to `roles`, in place, the roles that are not in it yet and that names of unused columns state.

        A name states a role by itself (`y_true`: labels), or several do together, one per class (`prob_cat`,
        `prob_dog`: probs). UncertainError where two columns state the same role; for ids, the first is taken.
        """
        used_names = {name for role_columns in roles.values() for name in role_columns.names}
        # A column may get two roles below: `question_id` is that of the questions and of the ids.
        unused_names = [name for name in self.columns if name not in used_names]
        # role ("labels") -> names that state it, in lower case with underscores
        for role, role_names in COLUMN_NAMES.items():
            matches = [name for name in unused_names if normalise_name(name) in role_names]
            if role == "error":  # most often the messages of failed calls
                matches = [name for name in matches if _may_say_which_answers_are_wrong(self.columns[name])]
            if role in roles or not matches:
                continue
            if len(matches) > 1 and role != "ids":  # any column of ids would do
                listed = " and ".join(f"`{display_name(name)}`" for name in matches)
                raise UncertainError(
                    f"{listed} could both be the {role}. Say which: --column {role}={display_name(matches[0])}",
                    self,
                )
            roles[role] = RoleColumns((matches[0],))
        # "logits" and "probs" -> pattern of a column's name, whose group is the class
        for role, pattern in CLASS_COLUMN_PATTERNS.items():
            class_of_column = {}  # name of a column -> the class that it names, as it is written in the file
            for name in unused_names:
                match = pattern.match(normalise_name(name))
                if match:
                    class_of_column[name] = _end_of_name(name, normalised_end=match.group(1))
            if role not in roles and len(class_of_column) > 1:
                roles[role] = order_class_columns(list(class_of_column), list(class_of_column.values()))

    def load(self, role: str, role_columns: RoleColumns) -> Values:
        """Load the values of one role: its only column, or several columns as a matrix (rows, columns).

        Texts come without blanks and line ends around them, so that these make no difference in any format.
        `role` is for messages. Two columns of clusters may hold words or numbers, and the matrix then holds objects.
        DataError where one of several columns of another role holds no numbers, where their lengths differ, or where a
        column that needs one value per row holds several.
        """
        # one array of numbers or `TextValues` per column
        parts = [self.columns[name].load() for name in role_columns.names]
        parts = [part.stripped() if isinstance(part, TextValues) else part for part in parts]
        if len(parts) == 1:
            values = parts[0]
            # labels and class scores, for example, may be a matrix; texts never are
            if role in _ROLES_WITH_ONE_VALUE and not isinstance(values, TextValues):
                self._refuse_several_values(role, role_columns.names[0], values)
            return values
        # Words or numbers; only their equality counts. A matrix of one column becomes a vector; a wider one becomes
        # longer than the other column, which is refused below.
        if role == "clusters":
            parts = [np.asarray(as_array(part), dtype=object).reshape(-1) for part in parts]
        for name, part in zip(role_columns.names, parts):
            if isinstance(part, TextValues) or part.ndim != 1:
                raise file_error(
                    self.path, f"column `{display_name(name)}` must hold numbers for the {role}."
                )
        if len({len(part) for part in parts}) > 1:
            raise file_error(self.path, f"the columns of the {role} must have one length.")
        return np.stack(parts, axis=1)

    def _refuse_several_values(self, role: str, name: str, values: np.ndarray) -> None:
        """Raise DataError where a column of numbers holds several in each row."""
        value_count = values[0].size if values.ndim > 1 and len(values) else 1
        if value_count > 1:
            raise file_error(
                self.path,
                f"column `{display_name(name)}` holds {value_count:,} values in each row; -c {role} takes one. Write a "
                f"row for each value, with a column that names the question.",
            )

    def list_columns(self, max_columns: int = 8) -> str:
        """Return its first columns in words, for messages."""
        first_columns = list(self.columns.items())[:max_columns]
        listed = ", ".join(f"`{display_name(name)}` ({column})" for name, column in first_columns)
        hidden_count = len(self.columns) - max_columns
        if hidden_count > 0:
            listed += f" and {hidden_count} more"
        return listed or "no columns"

    def preview(self, rows: int = 3) -> dict[str, list[str]]:
        """Return name, kind and first values of the first columns, for a table on the screen."""
        first_columns = dict(list(self.columns.items())[:_MAX_PREVIEWED_COLUMNS])
        return {
            "column": [display_name(name) for name in first_columns],
            "holds": [str(column) for column in first_columns.values()],
            "first values": [_show_first_values(column.load(), rows) for column in first_columns.values()],
        }


def _show_first_values(values: Values, rows: int) -> str:
    """Return the values of the first `rows` rows as text with commas; of a matrix, four numbers of the first row."""
    if isinstance(values, TextValues):
        return ", ".join(display_name(values.row(index)) for index in range(min(rows, len(values))))
    if values.ndim <= 1:
        first_values = values.reshape(-1)[:rows]
        is_float = first_values.dtype.kind == "f"
        return ", ".join(display_name(f"{value:.4g}" if is_float else value) for value in first_values)
    first_numbers = values[0].reshape(-1)[:4]
    return display_name(np.array2string(first_numbers, precision=3, separator=", ")) + " ..."


class UncertainError(DataError):
    """Two columns state the same role, or none states what is needed; `source` is there to be shown.

    Examples
    --------
    >>> raise UncertainError("`p` and `conf` could both be the confidence.", OpenedTable(Path("t.csv"), "csv", {}))
    Traceback (most recent call last):
    ...
    abstain.formats.columns.UncertainError: t.csv: `p` and `conf` could both be the confidence.
    """

    def __init__(self, text: str, source: OpenedTable) -> None:
        super().__init__(f"{display_name(source.path)}: {text}")
        self.source = source


class ComputedName(NamedTuple):
    """The name of a correctness that is computed from a column: `score/10`, `preference-1`."""

    column: str
    operation: str  # "/" or "-"
    number: float


def split_computed_name(name: str) -> ComputedName | None:
    """Return the parts of a name of the form NAME/NUMBER or NAME-NUMBER; None for any other name.

    >>> split_computed_name("score/10"), split_computed_name("score")
    (ComputedName(column='score', operation='/', number=10.0), None)
    """
    match = re.fullmatch(r"(.+)([/-])([0-9]+(?:\.[0-9]+)?)", name)
    return None if match is None else ComputedName(match[1], match[2], float(match[3]))


def add_derived_columns(source: OpenedTable, stated: Mapping[str, str]) -> OpenedTable:
    """Return the source with the columns that the user states as computed from others.

    The correctness may be `NAME/NUMBER` (`score/10`) or `NAME-NUMBER` (`preference-1`), and a confidence `-NAME`: the
    numbers of column NAME with the other sign. Several confidences have commas between them, and NAME may then be a
    pattern with *. A computed column is called as the user states it. None is added where a column of the file is
    called so, or where there is no column NAME. NAME may begin with the path of the table in a JSON file.

    `stated` maps roles, by any of their names, to names of columns; an "uncertainty" is a confidence with a minus sign
    before its name. `source` is the opened file; it is not changed. A division by 0 adds no column either: whatever
    looks for the column then says that it does not exist.
    """
    columns = dict(source.columns)
    # by the usual name of each role; those of an uncertainty have a minus sign
    names_by_role = columns_by_role(stated)
    stated_correctness = names_by_role.get("correct", "")
    computed = split_computed_name(stated_correctness)  # None where it is a plain name
    if computed is not None and stated_correctness not in columns:
        column = columns.get(_without_table_path(source, computed.column))
        if column is not None and computed.operation == "-":
            columns[stated_correctness] = column.less(computed.number)
        elif column is not None and computed.number != 0:  # the operation is "/"
            columns[stated_correctness] = column.divided(computed.number)
    for name in names_by_role.get("confidence", "").split(","):
        signed_name = name.strip()
        if signed_name in columns or not signed_name.startswith("-"):
            continue
        pattern = _without_table_path(source, signed_name.removeprefix("-"))
        unsigned_names = [pattern] if pattern in columns else fnmatch.filter(source.columns, pattern)
        for unsigned_name in unsigned_names:
            columns[f"-{unsigned_name}"] = columns[unsigned_name].negated()
    return replace(source, columns=columns)


def _without_table_path(source: OpenedTable, name: str) -> str:
    """Return the name of a column, or a pattern, without the path of the table in a JSON file, if it begins with it.

    Otherwise it is returned as it is, whether or not the table has such a column. A minus sign stays in front.

    >>> source = OpenedTable(Path("t.json"), "json", {}, place="run.rows")
    >>> [_without_table_path(source, name) for name in ("run.rows.ok", "-run.rows.sure", "ok")]
    ['ok', '-sure', 'ok']
    """
    sign = "-" if name.startswith("-") else ""
    # `place` is the path of the table in the JSON file; "" where the file is the table
    if not source.place or name in source.columns:
        return name
    return sign + name.removeprefix(sign).removeprefix(f"{source.place}.")


def _end_of_name(name: str, normalised_end: str) -> str:
    """Return the end of a column's name, as it is written in the file, whose normal form is `normalised_end`.

    The normal form (`normalise_name`) has lower case, with blanks and dashes as underscores. The whole name is returned
    where no end has that form.

    >>> [_end_of_name(*names) for names in (("prob_New  York", "new_york"), ("P(Cat) ", "p(cat)"))]
    ['New  York', 'P(Cat)']
    """
    name = name.strip()
    # The shortest such end. It may be longer than its normal form, in which several blanks are one underscore.
    for start in range(len(name) - len(normalised_end), -1, -1):
        if normalise_name(name[start:]) == normalised_end:
            return name[start:]
    return name


def _match_columns(source: OpenedTable, role: str, pattern: str) -> RoleColumns:
    """Find the columns that the user states for a role: a name, a pattern with *, several confidences, two clusters.

    Several columns may match for logits and probs (one per class, put in the order of the classes), for features and
    categories, and for the confidence. Two names of clusters with a comma are two kinds of clusters. UncertainError
    where nothing matches, or where several columns match for another role. `source` is the opened file.
    """
    pattern = _without_table_path(source, pattern)
    # the confidence "agreement" need not be a column: it is computed from repeated answers
    if pattern in source.columns or (role, pattern) == ("confidence", AGREEMENT):
        return RoleColumns(names=(pattern,))
    if role == "clusters" and pattern.count(",") == 1:
        return RoleColumns(
            tuple(_match_columns(source, role, name.strip()).names[0] for name in pattern.split(","))
        )
    matches = _matching_columns(source, pattern)  # names of columns
    # confidence, features and categories; a single name that is no column is refused below
    if role in ROLES_WITH_SEVERAL_COLUMNS and ("," in pattern or matches):
        return _match_several(source, role, pattern)
    if not matches:
        raise UncertainError(
            f"has no column `{display_name(pattern)}` for the {role}; it has {source.list_columns()}.", source
        )
    if len(matches) > 1 and role not in CLASS_COLUMN_PATTERNS:  # logits and probs have a column per class
        raise UncertainError(
            f"`{display_name(pattern)}` must match one column for the {role}, got {len(matches)}.",
            source,
        )
    # what follows the prefix in a column's name says the class: "cat" of prob_cat, by the pattern prob_*
    prefix = pattern.split("*")[0]  # the whole pattern where it has no *
    return order_class_columns(matches, [name.removeprefix(prefix) for name in matches])


def _match_several(source: OpenedTable, role: str, patterns: str) -> RoleColumns:
    """Find the columns of a role that may have several: names or patterns with *, separated by commas.

    A single * stands for all confidences of a harness's log. Other patterns match the names of any columns, whatever
    they hold; a column that is called like the pattern comes first. A column that is named twice counts once, and the
    columns come in the order in which they are named, those of a pattern in that of the file. UncertainError
    where a single * is given for another role, or for a plain table (among all its columns may be one that tells which
    answers are right), and where a name or a pattern matches no column.
    """
    names: list[str] = []
    for name_or_pattern in patterns.split(","):
        pattern = name_or_pattern.strip()
        if pattern == "*":
            if role != "confidence" or not source.facts.possible_confidence_columns:
                raise UncertainError(
                    f"* stands for all confidences of a log. Name the columns of the {role}: {source.list_columns()}.",
                    source,
                )
            names += source.facts.possible_confidence_columns
            continue
        matches = [] if pattern in source.columns else _matching_columns(source, pattern)
        # Without matches it is the name of a column, or "agreement" (computed from repeated answers); anything else
        # raises UncertainError in `_match_columns`.
        names += matches or _match_columns(source, role, pattern).names
    return RoleColumns(tuple(dict.fromkeys(names)))


def _matching_columns(source: OpenedTable, pattern: str) -> list[str]:
    """The columns that a pattern with * matches; upper and lower case differ."""
    return [name for name in source.columns if fnmatch.fnmatchcase(name, pattern)]
