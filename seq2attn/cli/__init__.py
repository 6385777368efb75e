"""The command line: one command a file. Nothing here imports torch before a command needs it."""

from seq2attn.cli.app import main

__all__ = ["main"]
