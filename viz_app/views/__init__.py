"""Views: pure functions from what a person looks at to the JSON a panel draws."""
