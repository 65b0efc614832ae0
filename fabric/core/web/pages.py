"""Base views of pages: each parses, makes one call, renders. Service errors are mapped here, once for all pages."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views import View
from django_tables2 import RequestConfig

from fabric.core.actor import Actor, Role
from fabric.core.errors import FabricError, NotAllowed, NotFound
from fabric.core.web.errors import add_to_form, flash
from fabric.core.web.exports import csv_response
from fabric.core.web.filters import FilterSet
from fabric.core.web.forms import ConfirmForm, Form
from fabric.core.web.request import actor_of, fragment_of
from fabric.core.web.tables import Table

PER_PAGE = 50
MAX_PER_PAGE = 200
HISTORY_ROWS = 20
"""How much of an object's audit trail its own page shows; the rest is in the audit log."""


@dataclass(frozen=True, slots=True)
class Crumb:
    """One step of the way to this page."""

    label: str
    url: str


@dataclass(frozen=True, slots=True)
class Empty:
    """What an empty list teaches: what belongs here, what to do next, and the command where there is one."""

    title: str
    text: str
    icon: str
    action_label: str = ""
    action_url: str = ""
    command: str = ""


class Page(View):
    """A page that needs `role`. `NotFound` becomes 404, `NotAllowed` 403; other service errors are the subclass's."""

    template_name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    role: ClassVar[Role] = Role.VIEWER

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Check the role, then answer."""
        if not self.actor.may(self.role):
            raise PermissionDenied(f"This needs the {self.role} role; you have {self.actor.role}.")
        try:
            return super().dispatch(request, *args, **kwargs)
        except NotFound as error:
            raise Http404(error.title) from error
        except NotAllowed as error:
            raise PermissionDenied(error.title) from error

    @property
    def actor(self) -> Actor:
        """Who acts."""
        return actor_of(self.request)

    @property
    def may_operate(self) -> bool:
        """Whether buttons that change the fabric are shown."""
        return self.actor.may(Role.OPERATOR)

    def paged(self, table: Table, per_page: int = PER_PAGE) -> Table:
        """Return the table sorted and paged as the address says."""
        RequestConfig(self.request, paginate=False).configure(table)
        table.paginate_safely(
            _number(self.request, table.prefixed_page_field, 1),
            min(_number(self.request, table.prefixed_per_page_field, per_page), MAX_PER_PAGE),
        )
        return table

    def crumbs(self) -> Iterable[Crumb]:
        """Return the way to this page, without the page itself."""
        return ()

    def context(self) -> dict[str, Any]:
        """Return what the template needs beyond the frame."""
        return {}

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Render the page."""
        return self.render()

    def render(self, status: int = 200, template: str = "", **extra: Any) -> HttpResponse:
        """Render `template_name` (or another template) with the page's context."""
        context = {"title": self.title, "crumbs": list(self.crumbs()), **self.context(), **extra}
        return render(self.request, template or self.template_name, context, status=status)


class Fragment(Page):
    """A part of a page that the page itself asks for again and again; 204 while it would say the same as `seen`."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Render the part, or say that nothing has changed."""
        context = self.context()
        if request.GET.get("seen") == context["fingerprint"]:
            return HttpResponse(status=204)
        return render(request, self.template_name, context)


def fingerprint(facts: Iterable[Any]) -> str:
    """Return a short text that changes whenever the facts do."""
    return hashlib.sha256(repr(list(facts)).encode()).hexdigest()[:16]


class ListPage(Page):
    """A filtered, sorted, paged table; `?export=csv` gives the filtered rows as a file."""

    template_name = "components/list_page.html"
    table_class: ClassVar[type[Table]]
    filterset_class: ClassVar[type[FilterSet] | None] = None
    noun: ClassVar[str] = "rows"
    intro: ClassVar[str] = ""

    def rows(self) -> QuerySet[Any]:
        """Return what may be listed, from a selector."""
        raise NotImplementedError

    def empty(self) -> Empty:
        """Return what to teach when there is nothing at all."""
        raise NotImplementedError

    def page_actions(self) -> Sequence[dict[str, str]]:
        """Return links to what can be done here: label, url, icon."""
        return ()

    def offer(self, label: str, url_name: str, icon: str = "plus") -> Sequence[dict[str, str]]:
        """Return a link to what operators may do, nothing for viewers."""
        return [{"label": label, "url": reverse(url_name), "icon": icon}] if self.may_operate else []

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Render the table, or export it."""
        return self.show(self.table_class, self.filterset_class, self.noun)

    def show(self, table_class: type[Table], filterset_class: type[FilterSet] | None, noun: str) -> HttpResponse:
        """Filter, sort, page and render; or export every filtered row."""
        request, rows = self.request, self.rows()
        filterset = filterset_class(request.GET, queryset=rows, request=request) if filterset_class else None
        table = self.paged(table_class(rows if filterset is None else filterset.qs))
        if request.GET.get("export") == "csv":
            return csv_response(table, noun)
        table.noun = in_sentence(noun)
        extra = {
            "table": table,
            "filterset": filterset,
            "filtered": filterset is not None and filterset.is_narrowed(),
            "noun": noun,
            "intro": self.intro,
            "empty": self.empty(),
            "page_actions": self.page_actions(),
        }
        return self.render(**{**extra, **self.context()})


def in_sentence(noun: str) -> str:
    """Return a noun as it stands inside a sentence: `Hosts` becomes `hosts`, `SSDs` stays."""
    return noun.lower() if noun[1:].islower() else noun


def _number(request: HttpRequest, name: str, default: int) -> int:
    text = request.GET.get(name, "")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else default


class FormPage(Page):
    """A form and the one service call that it makes. What the service refuses stands beside the fields (status 422)."""

    template_name = "components/form_page.html"
    role = Role.OPERATOR
    form_class: ClassVar[type[Form]]
    submit_label: ClassVar[str] = "Save"
    success: ClassVar[str] = ""

    def initial(self) -> dict[str, Any]:
        """Return what the form shows first."""
        return {}

    def form_options(self) -> dict[str, Any]:
        """Return further arguments of the form class."""
        return {}

    def cancel_url(self) -> str:
        """Return where to go without saving."""
        crumbs = list(self.crumbs())
        return crumbs[-1].url if crumbs else "/"

    def save(self, data: dict[str, Any]) -> HttpResponse:
        """Call the service; return the next page. May raise any `FabricError`."""
        raise NotImplementedError

    def form(self, data: Any = None) -> Form:
        """Return the form, bound where there is data."""
        return self.form_class(data, initial=self.initial(), **self.form_options())

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show the form."""
        return self._show(self.form())

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Check, call, go on; or show what was wrong."""
        form = self.form(request.POST)
        return self.submit(form, lambda: self.save(form.cleaned_data))

    def submit(self, form: Form, save: Callable[[], HttpResponse]) -> HttpResponse:
        """Call `save` when the form is valid; put what the service refuses beside the fields."""
        if form.is_valid():
            try:
                response = save()
            except (NotFound, NotAllowed):
                raise
            except FabricError as error:
                add_to_form(error, form)
            else:
                if self.success:
                    messages.success(self.request, self.success)
                return response
        return self._show(form, status=422)

    def _show(self, form: Form, status: int = 200) -> HttpResponse:
        return self.render(status=status, form=form, submit_label=self.submit_label, cancel_url=self.cancel_url())


class ActPage(Page):
    """One verb on one object. GET asks for confirmation (a whole page, or the inside of a dialog); POST acts."""

    template_name = "components/confirm_page.html"
    role = Role.OPERATOR
    form_class: ClassVar[type[Form]] = ConfirmForm
    verb_label: ClassVar[str] = ""
    danger: ClassVar[bool] = True
    success: ClassVar[str] = ""

    def question(self) -> str:
        """Return what is about to happen to what."""
        raise NotImplementedError

    def consequence(self) -> str:
        """Return what follows from it, and whether it can be undone."""
        return ""

    def button(self) -> tuple[str, bool]:
        """Return the label of the button that acts, and whether it is marked as dangerous."""
        return self.verb_label, self.danger

    def first_form(self) -> Form:
        """Return the form as it is shown first."""
        return self.form_class()

    def back_url(self) -> str:
        """Return the page to go to when it is refused or not wanted."""
        raise NotImplementedError

    def act(self, data: dict[str, Any]) -> str:
        """Call the service; return the address of the next page. May raise any `FabricError`."""
        raise NotImplementedError

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Ask."""
        return self._ask(self.first_form())

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Act; a refusal is shown as a message on the object's page."""
        form = self.form_class(request.POST)
        if not form.is_valid():
            return self._ask(form, status=422)
        try:
            url = self.act(form.cleaned_data)
        except (NotFound, NotAllowed):
            raise
        except FabricError as error:
            flash(request, error)
            return HttpResponseRedirect(self.back_url())
        if self.success:
            messages.success(request, self.success)
        return HttpResponseRedirect(url)

    def _ask(self, form: Form, status: int = 200) -> HttpResponse:
        label, danger = self.button()
        response = self.render(
            status=status,
            layout="layouts/fragment.html" if fragment_of(self.request) == "dialog" else "layouts/page.html",
            form=form,
            question=self.question(),
            consequence=self.consequence(),
            verb_label=label,
            danger=danger,
            back_url=self.back_url(),
        )
        patch_vary_headers(response, ["X-Fragment"])  # the inside of a dialog is not the page
        return response
