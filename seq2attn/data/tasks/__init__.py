"""Tasks: a task draws its own examples and has its own vocabularies. There are two base classes.

`StringTask`  each character of the target copies a character of the source: write `alignment`, as in `strings.py`
`Task`        anything else, such as a computed target::

    import torch
    from seq2attn.data.tasks import Task
    from seq2attn.data.vocabulary import Vocabulary

    class Doubling(Task):
        \"\"\"12 -> 24\"\"\"

        def __init__(self, *, digits: int = 3):
            self.source_vocabulary = self.target_vocabulary = Vocabulary("0123456789")
            self.min_length, self.max_length = 1, digits

        def examples(self, random, count, length=None):
            longest = 10 ** (length or self.max_length)
            shortest = 10 ** (length - 1) if length else 0
            numbers = torch.randint(shortest, longest, (count,), generator=random, device=random.device)
            return self.encode([(str(n), str(2 * n)) for n in numbers.tolist()], random.device)

        def target_length(self, source_length):
            return source_length + 1
"""

from seq2attn.data.tasks.base import Answer, Examples, Task
from seq2attn.data.tasks.strings import StringTask

__all__ = ["Answer", "Examples", "StringTask", "Task"]
