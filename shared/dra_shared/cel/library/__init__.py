"""The functions of the environment, one module per topic.

Each topic declares its functions in ``FUNCTIONS``, with their overloads, types, code, runtime cost and
estimate. ``costs`` has costs that several topics share, ``patterns`` Go's regular expressions, ``formatting``
the ``format`` function.
"""
