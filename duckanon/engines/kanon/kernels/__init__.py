"""Compiled loops of the engine, and the boxes of classes that they grow."""
