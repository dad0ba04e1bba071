"""The functions of the environment, one module a topic.

Each topic declares its functions in ``FUNCTIONS``, with their overloads, types, code, runtime cost and estimate.
``costs`` has what several topics cost, ``patterns`` Go's regular expressions, ``formatting`` the ``format`` function.
"""
