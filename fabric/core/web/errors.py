"""Service errors as people see them: beside fields of a form, or as one message."""

from django.contrib import messages
from django.http import HttpRequest
from django.utils.text import capfirst

from fabric.core.errors import FabricError, Problem
from fabric.core.web.forms import Form


def sentence(problem: Problem) -> str:
    """Return what is wrong and what would be right as one sentence."""
    text = capfirst(problem.problem.strip().rstrip("."))
    return f"{text}: {problem.remedy.strip().rstrip('.')}." if problem.remedy else f"{text}."


def add_to_form(error: FabricError, form: Form) -> None:
    """Put each problem beside the field at fault; what concerns no field of the form stands above, after the title."""
    form.add_error(None, error.title)
    for problem in error.problems:
        field = form.field_for(problem.field)
        text = sentence(problem)
        if field is None and problem.field:
            text = f"{problem.field}: {text}"
        form.add_error(field, text)


def flash(request: HttpRequest, error: FabricError) -> None:
    """Show the error as a message on the next page."""
    messages.error(request, " ".join([error.title, *(sentence(problem) for problem in error.problems)]))
