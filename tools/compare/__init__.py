"""Compare dralab's answers to random cases with those of real Kubernetes packages.

``make compare`` runs it. tools/upstream has the program of each Kubernetes release that gives the real answers. Only
this comparison needs Go.
"""
