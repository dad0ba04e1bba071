"""Templates in the language of Go's text/template, as ``kubectl get -o go-template`` takes them.

:mod:`~dra_kube.gotemplate.syntax` parses, :mod:`~dra_kube.gotemplate.template` executes,
:mod:`~dra_kube.gotemplate.functions` has the functions.
"""

from dra_kube.gotemplate.syntax import TemplateError
from dra_kube.gotemplate.template import GoTemplate

__all__ = ["GoTemplate", "TemplateError"]
