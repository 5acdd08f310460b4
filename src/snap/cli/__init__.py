"""The command line: `snap check`, `snap cuda`, `snap explain`, `snap prove`, `snap run`, and the others of app.py."""

from __future__ import annotations


def main() -> None:
    try:
        from snap.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich", "click"):
            raise
        raise SystemExit(f"snap's command line needs {missing.name}: pip install {missing.name}") from None
    app(prog_name="snap")
