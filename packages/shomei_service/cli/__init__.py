"""The `shomei` command."""
