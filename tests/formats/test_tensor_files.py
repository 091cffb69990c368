"""safetensors and torch files: half precision, and tensors that overlap."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import read_predictions


def test_bfloat16_and_half_safetensors(tmp_path):
    import torch
    from safetensors.torch import save_file

    z = torch.randn(6, 4)
    save_file(
        {"logits": z.bfloat16(), "labels": torch.arange(6, dtype=torch.int16) % 4},
        str(tmp_path / "a.safetensors"),
    )
    read = read_predictions(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(read.logits, z.bfloat16().float().numpy())
    save_file(
        {"probs": z.softmax(1).half(), "labels": torch.zeros(6, dtype=torch.uint8)},
        str(tmp_path / "b.safetensors"),
    )
    assert read_predictions(tmp_path / "b.safetensors").probs.dtype == np.float16


def test_tensors_that_overlap(tmp_path):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"correct": entry, "confidence": {**entry, "data_offsets": [4, 12]}}).encode()
    path = tmp_path / "t.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + np.array([1, 0, 1], "<f4").tobytes())
    with pytest.raises(DataError, match="overlap"):
        read_predictions(path)
