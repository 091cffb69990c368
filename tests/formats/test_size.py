"""One meaning of a size, by engines, by prediction files and on the command line."""

from __future__ import annotations

import pytest

from abstain._size import format_size, parse_size
from abstain.errors import InputError


@pytest.mark.parametrize(("text", "count"), [
    ("1GB", 10**9), ("1gb", 10**9), ("1G", 10**9), ("1GiB", 2**30), ("512 MB", 512 * 10**6), ("1.5k", 1500),
    (".5 TiB", 2**39), ("7", 7), ("7B", 7), (7, 7), (2.5e9, 2_500_000_000),
])  # fmt: skip
def test_read(text, count):
    assert parse_size("f", text) == count


@pytest.mark.parametrize(
    "bad", ["lots", "", "GB", "1.2.3GB", "-1GB", "0", "1PB", "1e3", 0, float("nan"), 2.0**70]
)
def test_refused(bad):
    with pytest.raises(InputError, match='f: `memory` must be a size such as "1GB", got'):
        parse_size("f", bad)


@pytest.mark.parametrize("text", ["1 GB", "999 MB", "1.23 kB", "10 B", "4 TB", "2.5e+04 TB"])
def test_written_as_it_is_read(text):
    number, unit = text.split()
    assert (
        format_size(round(float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]))
        == text
    )


def test_a_limit_on_the_command_line_is_in_the_same_units(tmp_path):
    from click.testing import CliRunner

    from abstain.cli import cli

    (tmp_path / "t.csv").write_text("correct,confidence\n" + "1,0.5\n" * 20_000)
    # 2 columns of 24 bytes a cell, and a little more; `evaluate` would go to the engine of files instead
    for size, code in (("950kB", 3), ("950KiB", 0)):
        done = CliRunner().invoke(
            cli, ["threshold", str(tmp_path / "t.csv"), "--coverage", "0.5", "-q", "--memory", size]
        )
        assert done.exit_code == code, done.output
