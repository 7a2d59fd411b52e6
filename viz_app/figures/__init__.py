"""Pictures as functions of values. Each answers with plain JSON; none shows, saves or fetches."""
