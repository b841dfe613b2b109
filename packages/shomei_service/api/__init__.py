"""The HTTP door over the engine. CONTRACT.md."""
