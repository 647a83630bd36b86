"""Errors as one sentence on stderr and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from duckanon.integrations.error_sentences import is_told, sentence
from duckanon.integrations.terminal.output import say


class Cancelled(Exception):
    """The user pressed Ctrl-C while something ran."""


@contextmanager
def one_sentence(say_it: Callable[[str], str] = str) -> Iterator[None]:
    """Report errors that a user can cause as one sentence on stderr. say_it: rewords the sentence.

    Raises typer.Exit with code 1, or 130 after Ctrl-C. Other errors are bugs and pass unchanged.
    """
    try:
        yield
    except (Cancelled, KeyboardInterrupt):
        say("Cancelled.")
        raise typer.Exit(130) from None
    except Exception as error:
        if not is_told(error):
            raise
        say(say_it(sentence(error)))
        raise typer.Exit(1) from None
