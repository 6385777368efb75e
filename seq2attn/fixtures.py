"""What pytest finds when seq2attn is installed: a fixture for the tests of a project."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def attention_doctor() -> Any:
    """`seq2attn.check_attention`, for `attention_doctor(module).require()`."""
    from seq2attn.api import check_attention

    return check_attention
