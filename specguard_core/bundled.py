"""Where the pair, problems, recorded runs and calibration that ship with the project lie.

The only place that knows; every path can be given by a flag or an argument instead.
"""

from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"
DRAFT = ASSETS / "models" / "abacus-draft"
TARGET = ASSETS / "models" / "abacus-target"
REWARD = ASSETS / "models" / "abacus-prm"
PROBLEMS = ASSETS / "problems" / "abacus-test.jsonl"
CALIBRATION_PROBLEMS = ASSETS / "problems" / "abacus-calibration.jsonl"
EXAMPLE = ASSETS / "traces" / "example.json"
RECORDINGS = ASSETS / "traces" / "index.json"
CALIBRATION_NAME = "calibration.json"
