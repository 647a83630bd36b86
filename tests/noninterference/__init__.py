"""Non-interference: an analyst learns what was paid for or published, and nothing else.

See docs/guarantee/privacy-guarantee.md.

`harness` runs the same statements over two databases that differ in their protected records alone, and compares all
that comes back (half a); `answers` compares each kind of paid answer with its exact values (half b). `worlds` makes the
databases, `statements` writes the statements, and `leaks` holds deliberately leaky variants of the guard, which the
harness must catch. `python -m tests.noninterference` is the long run.
"""
