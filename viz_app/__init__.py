"""The page: a pure session, pure views of it, pictures, and the thin part that speaks gradio."""
