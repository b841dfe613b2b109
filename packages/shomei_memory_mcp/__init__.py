"""The relay: ten governed memory tools over stdio, with no engine behind them on this side."""

__all__: list[str] = []
