"""The command `duckanon`. Its commands are in `commands`; its libraries come with the extra `cli`."""

import sys

_EXTRA = {"typer", "rich", "prompt_toolkit", "pygments", "click", "shellingham"}


def main() -> None:
    """Run the command line. Raises SystemExit with its exit code.

    The code is 0, or 1 after an error, 2 after wrong usage, 130 after Ctrl-C.
    """
    try:
        _run()
    except KeyboardInterrupt:  # while it was still being loaded
        print("Cancelled.", file=sys.stderr)
        raise SystemExit(130) from None


def _run() -> None:
    try:
        from duckanon.integrations.cli.commands import app
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _EXTRA:
            raise
        print("The command line needs its extra: pip install 'duckanon[cli]'.", file=sys.stderr)
        raise SystemExit(1) from None
    app(prog_name="duckanon")


if __name__ == "__main__":
    main()
