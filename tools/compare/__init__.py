"""Compare dralab's answers to random cases with those of real Kubernetes packages.

``make compare`` runs it. tools/upstream has Go programs that give the real answers, built for each Kubernetes release.
Nothing else in dralab needs Go.
"""
