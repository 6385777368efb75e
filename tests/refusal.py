"""The package's refusal of a mistake."""

import pytest

from seq2attn.errors import Seq2AttnError


def refused(message):
    """Expect an error of the package whose message matches `message`."""
    return pytest.raises(Seq2AttnError, match=message)
