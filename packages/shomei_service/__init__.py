"""The governed memory service: an engine usable as a library, and HTTP and commands over it."""
