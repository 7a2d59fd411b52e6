"""What the commands do and how it is shown. Reads no environment: cli.py hands it in."""
