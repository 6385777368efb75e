"""`seq2attn export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2attn.cli import options
from seq2attn.cli.output import write_line
from seq2attn.errors import Seq2AttnError
from seq2attn.runs.run import DEFAULT_ROOT, find_run


def export(
    run: options.RunArgument = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="A new folder. Default: RUN-export.")
    ] = None,
    checkpoint: options.CheckpointName = "best",
    plugin: options.Plugins = None,
    runs_dir: options.RunsDir = DEFAULT_ROOT,
) -> None:
    """Export a trained model for use without seq2attn.

    The folder holds the model's own functions as ONNX graphs (one token into each cell of the encoder, the preparation of
    the keys, one step of the decoder), a manifest with the vocabularies and the loops around them, the config, the weights
    as safetensors, and a model card that explains how to run it.

    Exporting needs two packages: pip install "seq2attn[export]"

    Examples:

      seq2attn export scaled-001 --to scaled

      seq2attn export --checkpoint last
    """
    options.load_plugins(plugin)
    from seq2attn.pages.folder import write_folder
    from seq2attn.pages.graphs import need_exporter

    need_exporter()
    found = find_run(runs_dir, run)
    if run is None:
        options.note_newest(found, "seq2attn export RUN")
    folder = to or Path(f"{found.name}-export")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        state = "is not empty" if folder.is_dir() else "is a file, not a folder"
        raise Seq2AttnError(f"{folder} {state}", hint="Name a new folder: --to FOLDER")
    write_folder(folder, found, checkpoint)
    write_line(str(folder))
