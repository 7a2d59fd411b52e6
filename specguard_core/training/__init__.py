"""The bundled pair: word-problem generator, tokenizer and trainer. Importing it loads no torch."""
