"""The engine: governed memory as a library, with no web, no environment and no threads of its own.

    from shomei_service.bootstrap import opened
    from shomei_service.engine.verbs.add import add

`with opened(settings) as engine`, authenticate a Caller (`verbs.access`), call the verbs. What they
raise is in `errors`, what they take and return in `model`.
"""
