"""The package's refusal of a mistake."""

import re

import pytest

from seq2attn.errors import Seq2AttnError


def refused(message):
    """Expect an error of the package whose message matches `message`."""
    return pytest.raises(Seq2AttnError, match=message)


def refused_with(words):
    """Expect an error of the package whose message has these words."""
    return refused(re.escape(words))


def refusal(call, *arguments, **options):
    """The mistake for which this call is refused."""
    with pytest.raises(Seq2AttnError) as caught:
        call(*arguments, **options)
    assert caught.value.exit_code == 2
    return caught.value
