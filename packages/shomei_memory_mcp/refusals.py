"""Everything the relay refuses with, each in fixed words, fit to be shown to a model or an operator."""


class Refusal(Exception):
    """The relay does not do or show something; the message says which rule, never what was found."""


class SettingsRefused(Refusal):
    """A setting cannot be used; the message names the variable and the rule."""


class InputRefused(Refusal):
    """The arguments break a published rule; the message names fields and rules."""


class ToolFailure(Refusal):
    """A call has no answer to relay; the message is ours, with at most one sentence of the service's."""


class Withheld(Refusal):
    """A body must not be relayed."""


class TooLarge(Refusal):
    """A read whose answer cannot be cut to whole parts within the bound."""
