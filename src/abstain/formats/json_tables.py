"""Tables inside JSON: which parts of a parsed file are tables, and nested fields as columns with dotted names.

A JSON file may hold its rows in many ways: a list of records, an object of columns, an object whose keys are the ids of
its records, verdicts by the id of their question, several values by the same ids, rows under a list of column names
(pandas `split`, tables of Weights & Biases), one object of values by row number per column (the default of pandas), and
any of these inside other objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from abstain._roles import COLUMN_NAMES, normalise_name
from abstain.formats.roles import AGREEMENT
from abstain.formats.safety import count_noun, display_name, file_error

_MAX_DEPTH = 6  # objects inside each other that are looked into
# Entries of an object of records or lists by id; fewer may be models or parts of a test, which must not be mixed
_MIN_RECORDS_BY_ID = 5
# Single values in several objects with the same keys: so many whole numbers, or any names, are ids of answers. Fewer
# names may be those of metrics.
_MIN_NUMBERED_VALUES_BY_ID = 5
_MIN_NAMED_VALUES_BY_ID = 50
_MAX_TREE_KEYS = 8  # of one object that are shown in a tree
_MAX_TREE_DEPTH = 3
# A table of all values may have this many times as many cells as there are values, and this many more.
_MAX_SPARSENESS = 50
_ALWAYS_ALLOWED_CELLS = 1000
# In the names of columns that hold sampled answers, such as `responses`, `generated_samples` and `completions`.
_SAMPLE_WORDS = (
    "response",
    "answer",
    "sample",
    "generation",
    "completion",
    "replies",
    "output",
    "prediction",
)
_MIN_SHARE_OF_ONE_LENGTH = 0.9  # of the lists of a column of samples whose name does not say so
_VERDICT_NAMES = {*COLUMN_NAMES["correct"], "resolved", "success", "passed"}
_ROLE_NAMES = {name for names in COLUMN_NAMES.values() for name in names}


class JsonTable(NamedTuple):
    """A table that parsed JSON holds."""

    key_path: str  # the keys that lead to the table, with dots between; "" for the file as a whole
    columns: dict[str, list[Any]]  # column name -> one value per row, None where a row has no value


def find_tables(path: Path, content: Any) -> list[JsonTable]:
    """Return the tables of a parsed JSON file, in the order of the file; empty where it holds none.

    A field that lies inside an object of a record has a dotted name: `judge.confidence`. DataError where records have
    so few names in common that the table of all values would be far larger than the file. `path` is for messages.
    """
    tables = _find_tables_below(path, content, key_path="", depth=0)
    if not tables and _is_verdict_by_id(content):
        return [JsonTable("", {"id": list(content), "correct": list(content.values())})]
    return tables


def _find_tables_below(path: Path, content: Any, *, key_path: str, depth: int) -> list[JsonTable]:
    """Return the tables in a part of a JSON file, each with the dotted path of its keys and its columns.

    `content` is the part as a parsed JSON value, and `key_path` the keys that lead to it, with dots; "" for the whole
    file. `depth` counts the objects around the part; at `_MAX_DEPTH` (6), the objects inside it are not looked into. A
    verdict is a truth value that says whether an answer is right; `_columns_...` return column name -> list of values.
    """
    # such as [{"results": [...]}]; the key path leaves out the list around the object
    if _is_one_object_around_answers(content) and depth < _MAX_DEPTH:
        return _find_tables_below(path, content[0], key_path=key_path, depth=depth + 1)
    # key of a part -> {id: list of verdicts, or of answers}; the first part holds the verdicts; mostly empty
    lists_by_id = _find_repeated_verdicts(content)
    columns = None if lists_by_id else _read_table(path, content)
    if columns is not None:
        return [JsonTable(key_path, columns)]
    if not isinstance(content, dict) or depth >= _MAX_DEPTH:
        return []
    if _holds_repeated_verdicts(content):
        return [JsonTable(key_path, _columns_by_id({"correct": content}))]
    tables = []
    for name, part in content.items():
        part_key_path = f"{key_path}.{name}" if key_path else str(name)
        if lists_by_id and name == next(iter(lists_by_id)):
            # `_name_verdicts` calls the verdicts "correct", unless several parts hold verdicts
            tables.append(JsonTable(part_key_path, _columns_by_id(_name_verdicts(lists_by_id))))
        elif isinstance(part, (dict, list)) and name not in lists_by_id:
            tables += _find_tables_below(path, part, key_path=part_key_path, depth=depth + 1)
    # key of a part -> {id: value}, with the same ids in all parts; mostly empty. Tables of as many rows come before it.
    values_by_id = _find_values_by_id(content)
    if values_by_id and all(_count_rows(table) < len(next(iter(values_by_id.values()))) for table in tables):
        return [JsonTable(key_path, _columns_of_values_by_id(values_by_id))]
    # Lists of this object itself are its table, unless there are tables below and no list is called as a role is.
    columns = _read_object_of_columns(path, content)
    if columns and (not tables or _any_name_states_a_role(columns)):
        return [JsonTable(key_path, columns)]
    # An object of one object, which may be a record by its id, is taken for that only if it is nothing else.
    if not tables and len(content) == 1 and _all_values_are_objects(content):
        return [JsonTable(key_path, _columns_from_records(path, _records_with_ids(content)))]
    return tables


def _read_table(path: Path, content: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a part of a file that is a table as a whole; None where it is none.

    It is a list of records, rows under a list of column names, an object of records (or of short lists of records) by
    id, or an object of columns whose values are named by row numbers. `content` is a parsed JSON value.
    """
    if isinstance(content, list):
        return _columns_from_records(path, content) if _is_list_of_objects(content) else None
    if not isinstance(content, dict):
        return None
    columns = _read_named_rows(content)  # {"columns": names, "data": rows}; None for another form
    if columns is not None or len(content) < 2:  # a single key may as well be a name around the table
        return columns
    if _all_values_are_objects(content):
        if _is_by_row_number(content):
            return _columns_by_row_number(content)
        # each with its key in the field "id" ("key" where that is taken)
        records = _records_with_ids(content)
        # Few objects with tables inside are parts of a file, such as one for each task, and not records.
        are_parts = len(content) < _MIN_RECORDS_BY_ID and _any_record_holds_a_table(records)
        # records of one table have some field in common: more than half of them have it
        if are_parts or not _share_a_field_besides_the_id(records):
            return None
        return _columns_from_records(path, records)
    if all(_is_list_of_objects(part) for part in content.values()):
        longest = max(len(part) for part in content.values())
        # More keys than records under any key: the keys are questions, and the lists the answers to each.
        # `_MIN_RECORDS_BY_ID` (5) keys are too many to be names of parts.
        if len(content) >= max(_MIN_RECORDS_BY_ID, longest + 1):
            return _columns_from_records(path, _records_of_lists_with_ids(content))
    return None


def _is_verdict_by_id(content: Any) -> bool:
    """Return whether this is an object of true and false by id: one verdict for each question, as SWE-bench Pro writes.

    A name that states a role, such as `correct`, makes it a single record.
    """
    return (
        isinstance(content, dict)
        and len(content) > 1
        and all(isinstance(value, bool) for value in content.values())
        and not _any_name_states_a_role(content)
    )


def _holds_repeated_verdicts(content: Any) -> bool:
    """Return whether this is an object of lists of true and false by id: verdicts on repeated answers to questions.

    As for lists of records by id, there must be more keys than entries under any key. Otherwise, and where a name
    states a role, the keys may be names of columns.
    """
    if not isinstance(content, dict) or len(content) < _MIN_RECORDS_BY_ID:  # 5
        return False
    if not all(isinstance(values, list) and values for values in content.values()):
        return False
    has_more_keys = len(content) > max(map(len, content.values()))
    holds_verdicts = all(isinstance(value, bool) for values in content.values() for value in values)
    return has_more_keys and holds_verdicts and not _any_name_states_a_role(content)


def _find_repeated_verdicts(content: Any) -> dict[str, dict[str, list[Any]]]:
    """Return the parts of an object that hold verdicts on repeated answers by id, and others that go with them.

    The first one has verdicts. With it go all parts that have the same ids, with lists of the same lengths, such as the
    answers themselves. `content` is a parsed JSON value. Empty where no part holds such verdicts.
    """
    if not isinstance(content, dict):
        return {}
    first_name = next((name for name, part in content.items() if _holds_repeated_verdicts(part)), None)
    if first_name is None:
        return {}
    # id of a question -> number of its answers
    length_by_id = {key: len(values) for key, values in content[first_name].items()}
    parts = {first_name: content[first_name]}
    for name, part in content.items():  # the first part is found again, and keeps its place
        if not isinstance(part, dict) or part.keys() != length_by_id.keys():
            continue
        if all(_is_list_of_single_values(part[key], length) for key, length in length_by_id.items()):
            parts[name] = part
    return parts


def _find_values_by_id(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the parts of an object that hold a single value for each of the same ids, such as results and outputs.

    There are at least two parts, with 50 ids or more, or 5 that are whole numbers: fewer names may be those of metrics.
    Empty otherwise. Where several groups of parts have the same ids, it is the group with the most ids. The result maps
    the name of a part to {id: value}. `content` is a parsed JSON object.
    """
    parts_by_ids: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for name, part in content.items():
        if not isinstance(part, dict) or any(isinstance(value, (dict, list)) for value in part.values()):
            continue
        are_numbered = all(str(key).isdecimal() for key in part)
        if len(part) >= (_MIN_NUMBERED_VALUES_BY_ID if are_numbered else _MIN_NAMED_VALUES_BY_ID):
            parts_by_ids.setdefault(tuple(sorted(part)), {})[name] = part
    groups = [parts for parts in parts_by_ids.values() if len(parts) > 1]
    return max(groups, key=lambda parts: len(next(iter(parts.values()))), default={})


def _columns_of_values_by_id(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return columns of {name: {id: value}} with a row for each id, which is in "id", or "key" where that is taken.

    All objects have the same ids; rows are in the order of the first of them.
    """
    ids = list(next(iter(parts.values())))
    field = "key" if "id" in parts else "id"
    return {field: ids, **{name: [part[key] for key in ids] for name, part in parts.items()}}


def _count_rows(table: JsonTable) -> int:
    """Return the number of values of the longest column of a table."""
    return max(map(len, table.columns.values()), default=0)


def _name_verdicts(lists_by_id: dict[str, dict[str, list[Any]]]) -> dict[str, dict[str, list[Any]]]:
    """Return the lists with "correct" for the only key of verdicts; unchanged where several keys hold verdicts.

    They are unchanged, too, where "correct" is taken.
    """
    verdict_names = [name for name, lists in lists_by_id.items() if _holds_repeated_verdicts(lists)]
    if len(verdict_names) > 1 or "correct" in lists_by_id:
        return lists_by_id
    return {"correct" if name in verdict_names else name: lists for name, lists in lists_by_id.items()}


def _is_list_of_single_values(value: Any, length: int) -> bool:
    """Return whether this is a list of so many texts, numbers or truth values, or of nothing in their place."""
    return (
        isinstance(value, list)
        and len(value) == length
        and not any(isinstance(item, (dict, list)) for item in value)
    )


def _columns_by_id(lists_by_name: Mapping[str, Mapping[str, list[Any]]]) -> dict[str, list[Any]]:
    """Return columns of {name: {id: list}}, with a row for each entry: its id, its number ("epoch") and its values.

    All objects have the same ids, with lists of the same lengths. The id is in "id", or in "key" where that is taken.
    """
    # Rows are in the order of the first object: the entries of its first id, of its second id, ...
    first_lists = next(iter(lists_by_name.values()))
    field = "key" if "id" in lists_by_name else "id"
    columns: dict[str, list[Any]] = {
        field: [key for key, values in first_lists.items() for _ in values],
        "epoch": [epoch for values in first_lists.values() for epoch in range(1, len(values) + 1)],
    }
    for name, lists in lists_by_name.items():
        columns[name] = [value for key in first_lists for value in lists[key]]
    return columns


def _is_one_object_around_answers(content: Any) -> bool:
    """Return whether this is a list of one object that holds a list of answers, such as the only variant of a run.

    The answers say right or wrong, and the object around them does not.
    """
    if not _is_list_of_objects(content) or len(content) > 1 or _states_a_verdict(content[0]):
        return False
    lists = [part for part in content[0].values() if _is_list_of_objects(part) and len(part) > 1]
    return any(_states_a_verdict(part[0]) for part in lists)


def _states_a_verdict(record: Mapping[str, Any]) -> bool:
    """Return whether a field of a record says by its name whether an answer is right."""
    return any(normalise_name(str(name)) in _VERDICT_NAMES for name in record)


def _is_list_of_objects(content: Any) -> bool:
    """Return whether this is a list of one or more objects."""
    return isinstance(content, list) and bool(content) and all(isinstance(item, dict) for item in content)


def _all_values_are_objects(content: Mapping[str, Any]) -> bool:
    """Return whether every value of an object is an object that is not empty."""
    return all(isinstance(part, dict) and part for part in content.values())


def _read_named_rows(content: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """Return the columns of {"columns": names, "data": rows}, which pandas (`split`) and Weights & Biases write.

    The index of pandas becomes a column `index` unless there is one. None where the object is not of this form, or has
    no rows. `content` is a parsed JSON object.
    """
    names = content.get("columns")
    rows = content.get("data")
    if not isinstance(names, list) or not isinstance(rows, list) or not rows:
        return None
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        return None
    columns = {str(name): list(values) for name, values in zip(names, zip(*rows))}  # rows turned into columns
    index = content.get("index")
    if isinstance(index, list) and len(index) == len(rows):
        columns.setdefault("index", index)
    return columns


def _is_by_row_number(content: Mapping[str, Any]) -> bool:
    """Return whether an object of objects has a column for each key, and a value for each row number inside it.

    That is how pandas writes a table by default. An object of records by id looks alike, but its records have names of
    fields. So the inner keys must be the same in all columns. Besides, either all inner keys are whole numbers and not
    all outer ones are, or some outer key states a role (`correct`, `confidence`) and no inner key does. `content` is a
    parsed JSON object.
    """
    first_column, *other_columns = content.values()
    if any(column.keys() != first_column.keys() for column in other_columns):
        return False
    if any(isinstance(value, (dict, list)) for value in first_column.values()):
        return False  # cells of such a table are single values
    has_row_numbers = all(str(key).isdecimal() for key in first_column)
    has_named_columns = not all(str(name).isdecimal() for name in content)
    only_outer_keys_state_roles = _any_name_states_a_role(content) and not _any_name_states_a_role(
        first_column
    )
    return (has_row_numbers and has_named_columns) or only_outer_keys_state_roles


def _columns_by_row_number(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of {name: {row: value}}; the rows' names become a column `index` unless there is one."""
    rows = list(next(iter(content.values())))
    columns = {str(name): [column[row] for row in rows] for name, column in content.items()}
    columns.setdefault("index", rows)
    return columns


def _any_name_states_a_role(names: Mapping[str, Any]) -> bool:
    """Return whether one of the names says what its column holds: `correct`, `y_true`, `logits`."""
    return any(normalise_name(str(name)) in _ROLE_NAMES for name in names)


def _records_with_ids(records: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of an object by id as a list; the id is in the field "id", or "key" where that is taken."""
    field = "key" if any("id" in record for record in records.values()) else "id"
    return [{field: key, **record} for key, record in records.items()]


def _records_of_lists_with_ids(lists: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of an object of lists by id as one list, with the id in "id" or "key" and "epoch" from 1."""
    records = [record for part in lists.values() for record in part]
    field = "key" if any("id" in record for record in records) else "id"
    keyed_records = []
    for key, part in lists.items():
        for epoch, record in enumerate(part, 1):
            keyed_records.append({field: key, "epoch": epoch, **record})
    return keyed_records


def _any_record_holds_a_table(records: list[dict[str, Any]]) -> bool:
    """Return whether some record holds a list of two or more records itself."""
    return any(
        _is_list_of_objects(value) and len(value) > 1 for record in records for value in record.values()
    )


def _share_a_field_besides_the_id(records: list[dict[str, Any]]) -> bool:
    """Return whether at least two fields (the id is one) are in more than half of the records."""
    counts = Counter(name for record in records for name in record)
    return sum(count > len(records) / 2 for count in counts.values()) > 1


def _read_object_of_columns(path: Path, content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values of an object that are lists, by name; lists in objects have dotted names.

    Lists in objects count only where one of the object's own lists is as long, or where it has none. A list of records
    counts as its columns, with dotted names, where one of the object's own lists is as long. Its own lists are those
    directly in it, lists of records left out. `content` is a parsed JSON object.
    """
    # `_flatten` yields the fields of the object and, by dotted names, those of objects inside it
    lists = {name: values for name, values in _flatten(content) if isinstance(values, list) and values}
    plain_lists = {name: values for name, values in lists.items() if not _is_list_of_objects(values)}
    own_lengths = {len(values) for name, values in plain_lists.items() if name in content}
    columns: dict[str, list[Any]] = {}
    for name, values in lists.items():
        if name not in plain_lists:  # a list of records
            if len(values) in own_lengths:
                parts = _columns_from_records(path, values)  # name of a field -> one value per record
                columns |= {f"{name}.{part}": column for part, column in parts.items()}
        elif name in content or not own_lengths or len(values) in own_lengths:
            columns[name] = values
    return columns


def _flatten(record: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record as (name, value); a field of an object inside it has a dotted name.

    `prefix` is put before each name. Objects deeper than `_MAX_DEPTH` stay objects, and empty ones are left out.
    """
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            yield from _flatten(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _has_object_field(record: Mapping[str, Any]) -> bool:
    """Return whether some field of a record is an object; most records have none, which saves their copies."""
    return dict in map(type, record.values())


def _columns_from_records(path: Path, records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return {name: one value per record}, with None where a record does not have the name.

    A column of lists of texts becomes one of texts where no list has more than one. Sampled answers to one question
    become the columns `NAME.answer`, the most frequent text of each row, and `NAME.agreement`, its share. DataError
    where records have so few names in common that the table of all values would be far larger than the file.
    """
    # fields of objects inside a record get dotted names
    rows = [dict(_flatten(record)) if _has_object_field(record) else record for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))
    value_count = sum(map(len, rows))
    # The cells of the table, empty ones included, against the values in the file; small tables are always allowed.
    # 50 times as many cells as values, and 1000 more
    if len(names) * len(rows) > _MAX_SPARSENESS * value_count + _ALWAYS_ALLOWED_CELLS:
        raise file_error(path, "its records have too few names in common to make a table.")
    columns: dict[str, list[Any]] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        # {} for values that stay as they are: any but lists of texts, and lists such as keywords
        columns |= _columns_of_text_lists(name, values) or {name: values}
    return columns


def _columns_of_text_lists(name: str, values: list[Any]) -> dict[str, list[Any]]:
    """Return the columns that a column of lists of texts stands for; empty where it is no such column.

    Where no list has more than one text, that is the text itself. Where some list has a text twice and the lists look
    like samples, the texts of a row are sampled answers to one question: `NAME.answer` is the most frequent (the first
    of those), and `NAME.agreement` its share.
    """
    first_value = next((value for value in values if value is not None), None)
    if not isinstance(first_value, list):  # most columns, which need no closer look
        return {}
    lists = [value for value in values if value is not None]
    if not all(_is_list_of_texts(value) for value in lists):
        return {}
    has_repeats = any(len(set(value)) < len(value) for value in lists)
    if max(map(len, lists)) <= 1:
        return {name: [value[0] if value else None for value in values]}  # None for an empty list
    # keywords and steps are no samples; of samples that all differ, the agreement says nothing
    if not has_repeats or not _look_like_samples(name, lists):
        return {}
    answers: list[str | None] = []
    shares: list[float | None] = []
    for value in values:
        if not value:
            answers.append(None)
            shares.append(None)
            continue
        answer, count = Counter(text.strip() for text in value).most_common(1)[0]
        answers.append(answer)
        shares.append(count / len(value))
    return {f"{name}.answer": answers, f"{name}.{AGREEMENT}": shares}


def _look_like_samples(name: str, lists: list[list[str]]) -> bool:
    """Return whether lists of texts look like answers that were sampled for each row.

    The name of their column says so, or nearly all of them have one length above 1, as samples have.
    """
    own_name = name.rpartition(".")[2].lower()
    if any(word in own_name for word in _SAMPLE_WORDS):
        return True
    length, count = Counter(map(len, lists)).most_common(1)[0]
    return length > 1 and count >= _MIN_SHARE_OF_ONE_LENGTH * len(lists)


def _is_list_of_texts(value: Any) -> bool:
    """Return whether this is a list of texts; it may be empty."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def describe_tree(content: Any, depth: int = 0) -> list[str]:
    """Return the keys of a parsed JSON file as indented lines, with what lies under each.

    At most 8 keys of an object (`_MAX_TREE_KEYS`) and 3 levels (`_MAX_TREE_DEPTH`) are shown; of a list, its first.
    `content` is a parsed JSON value, and `depth` the number of objects around it, by which lines are indented. Empty
    for a value without keys.
    """
    if isinstance(content, list):
        return describe_tree(content[0], depth) if content and depth < _MAX_TREE_DEPTH else []
    if not isinstance(content, dict) or depth >= _MAX_TREE_DEPTH:
        return []
    lines = []
    for name, value in list(content.items())[:_MAX_TREE_KEYS]:
        lines.append(f"{'  ' * depth}{display_name(name)}: {_describe_value(value)}")
        lines += describe_tree(value, depth + 1)
    hidden_count = len(content) - _MAX_TREE_KEYS
    if hidden_count > 0:
        lines.append(f"{'  ' * depth}... and {count_noun(hidden_count, 'other key')}")
    return lines


def _describe_value(value: Any) -> str:
    """Return what a value of parsed JSON is, in words."""
    if isinstance(value, dict):
        return f"object of {count_noun(len(value), 'key')}"
    if isinstance(value, list):
        return f"list of {count_noun(len(value), 'entry', 'entries')}"
    if isinstance(value, bool):
        return "truth value"
    if isinstance(value, str):
        return "text"
    return "nothing" if value is None else "number"
