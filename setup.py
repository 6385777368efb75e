"""What pyproject.toml has no word for: the wheel brings a copy of `configs/`, which stays the one place they are written."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithConfigs(build_py):
    """`configs/` of the repository becomes `seq2attn/configs/` of the wheel."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_tree("configs", str(Path(self.build_lib, "seq2attn", "configs")))


setup(cmdclass={"build_py": BuildWithConfigs})
