"""Language models behind the seam of lm.py: transformers (hf), and scripted ones for tests."""
