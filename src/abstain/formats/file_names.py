"""What the name of a file says: its format by its ending, and the name of the model.

The names of all formats stand here and nowhere else. This file loads no numpy, so that the command line can list the
formats quickly. To add a format, add its name and endings to `FILE_ENDINGS` and a `Reader` to `readers.READERS`.
"""

from __future__ import annotations

from pathlib import Path

from abstain.formats.safety import COMPRESSED_ENDINGS, file_error

FILE_ENDINGS: dict[str, tuple[str, ...]] = {
    "npz": (".npz",),
    "npy": (".npy",),
    "csv": (".csv", ".txt"),
    "tsv": (".tsv", ".tab"),
    "xlsx": (".xlsx", ".xlsm"),
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "safetensors": (".safetensors", ".st"),
    "pt": (".pt", ".pth"),
    "inspect": (".eval",),
}
"""Format -> endings of the names of its files."""
FORMATS = tuple(FILE_ENDINGS)
"""Formats that can be read."""
_FORMAT_OF_ENDING = {ending: name for name, endings in FILE_ENDINGS.items() for ending in endings}
_PICKLE_ENDINGS = (".pkl", ".pickle", ".joblib", ".dill")
_OTHER_OFFICE_ENDINGS = (".xls", ".xlsb", ".ods", ".numbers")


def format_by_name(path: Path) -> str | None:
    """Return the format that a file's ending says, one of `FORMATS`; None for an ending that says none.

    Of a compressed file (.gz, .xz, .bz2), the ending before that counts. DataError for formats that are refused by
    name: pickles, other spreadsheets, files compressed twice.
    """
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSED_ENDINGS:
        endings.pop()
    ending = endings[-1] if endings else ""
    if ending in COMPRESSED_ENDINGS:
        raise file_error(path, "is compressed twice. Decompress it once first.")
    if ending in _PICKLE_ENDINGS:
        raise file_error(
            path,
            "pickle files can run code when opened and are not read. "
            "Save the arrays with numpy.savez, as csv or as parquet.",
        )
    if ending in _OTHER_OFFICE_ENDINGS:
        raise file_error(path, f"{ending} files are not read. Save the sheet as .xlsx or .csv.")
    return _FORMAT_OF_ENDING.get(ending)  # ".tab" -> "tsv"


def model_name(path: str | Path) -> str:
    """Return a model's name from that of its file: without the endings that say the format.

    >>> model_name("runs/gpt-4.1-mini.parquet"), model_name("a.csv.gz")
    ('gpt-4.1-mini', 'a')
    """
    name = Path(path).name
    while Path(name).suffix.lower() in (*_FORMAT_OF_ENDING, *COMPRESSED_ENDINGS):
        name = Path(name).stem
    return name
