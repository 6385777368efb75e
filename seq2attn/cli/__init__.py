"""The command line, a few commands a file. No module here imports torch before a command needs
it.
"""

from seq2attn.cli.app import main

__all__ = ["main"]
