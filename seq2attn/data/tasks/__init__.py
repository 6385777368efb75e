"""Tasks: a task draws its own examples and has its own vocabularies. There are two base classes.

`StringTask`  each character of the target copies a character of the source: write `alignment`, as
              in `strings.py`
`Task`        anything else, such as a computed target, as in `addition.py`

docs/plugins.md has a task of each kind in a file of its own.
"""

from seq2attn.data.tasks.base import Examples, Solution, Task
from seq2attn.data.tasks.strings import StringTask

__all__ = ["Solution", "Examples", "StringTask", "Task"]
