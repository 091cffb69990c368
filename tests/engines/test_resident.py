"""The memory in use is known, or assumed, where there is no /proc."""

from __future__ import annotations

import builtins
import sys

import pytest

from abstain import _size


@pytest.fixture
def no_proc(monkeypatch):
    real = builtins.open

    def elsewhere(path, *args, **kwargs):
        if str(path).startswith("/proc"):
            raise FileNotFoundError(path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", elsewhere)


def test_read_from_the_system():
    assert 10**7 < _size.resident_bytes() < 10**11


def test_read_by_psutil(no_proc, monkeypatch):
    class Process:
        def memory_info(self):
            return type("Info", (), {"rss": 123_456_789})

    monkeypatch.setitem(sys.modules, "psutil", type(sys)("psutil"))
    monkeypatch.setattr(sys.modules["psutil"], "Process", Process, raising=False)
    assert _size.resident_bytes() == 123_456_789


def test_assumed_without_psutil(no_proc, monkeypatch):
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert _size.resident_bytes() == 150_000_000
