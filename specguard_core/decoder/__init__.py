"""Decoders as state machines over frozen states."""
