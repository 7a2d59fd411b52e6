"""What the project claims of speed, memory and quality, measured; see README.md here."""
