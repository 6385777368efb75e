"""The command line, a file for each command. No module here imports torch before a command needs
it.
"""

from seq2attn.cli.app import main

__all__ = ["main"]
