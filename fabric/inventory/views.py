"""Pages of the inventory: one set of views for every kind of thing in `nouns`."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from fabric.audit.selectors import audit_entries_for_object
from fabric.core.errors import NotFound
from fabric.core.web.forms import ReasonForm
from fabric.core.web.pages import HISTORY_ROWS, ActPage, Crumb, Empty, FormPage, ListPage, Page, in_sentence
from fabric.inventory.forms import NounForm
from fabric.inventory.nouns import SITE, Noun


class NounPage(Page):
    """Base of the pages of one kind; `kind` is given with the route."""

    kind: Noun = SITE

    def row(self) -> Any:
        """Return the thing of the address. Raises `NotFound`."""
        row = self.kind.rows(self.actor).filter(pk=self.kwargs["pk"]).first()
        if row is None:
            raise NotFound(f"There is no such {self.kind.one}.")
        return row

    def list_url(self) -> str:
        """Return the address of the list."""
        return reverse(f"inventory:{self.kind.plural_key}")

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list, and the thing where the page is about one."""
        crumbs = [Crumb(self.kind.many, self.list_url())]
        if "pk" in self.kwargs:
            row = self.row()
            crumbs.append(Crumb(str(row), row.get_absolute_url()))
        return crumbs


class NounList(NounPage, ListPage):
    """Every thing of one kind."""

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Render the kind's own table."""
        return self.show(self.kind.table, self.kind.filterset, self.kind.many)

    def context(self) -> dict[str, Any]:
        """Name the page."""
        return {"title": self.kind.many, "intro": self.kind.intro}

    def crumbs(self) -> Sequence[Crumb]:
        """Stand at the top."""
        return ()

    def rows(self) -> QuerySet[Any]:
        """Return all."""
        return self.kind.rows(self.actor)

    def empty(self) -> Empty:
        """Say what it is and how it gets here."""
        add = reverse(f"inventory:{self.kind.key}-create")
        return Empty(
            f"No {in_sentence(self.kind.many)} yet", self.kind.teach, self.kind.icon, f"Declare a {self.kind.one}", add
        )

    def page_actions(self) -> Sequence[dict[str, str]]:
        """Offer to declare one."""
        return self.offer(f"Declare a {self.kind.one}", f"inventory:{self.kind.key}-create")


class NounDetail(NounPage):
    """One thing: its facts with their source, what belongs to it, its history."""

    template_name = "inventory/detail.html"

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list."""
        return [Crumb(self.kind.many, self.list_url())]

    def context(self) -> dict[str, Any]:
        """Read the thing and its relations."""
        row = self.row()
        relations = [(title, self.paged(table, 25)) for title, table in self.kind.relations(self.actor, row)]
        return {
            "title": str(row),
            "row": row,
            "kind": self.kind,
            "facts_template": f"inventory/_{self.kind.key}.html",
            "relations": [(title, table) for title, table in relations if len(table.rows)],
            "edit_url": reverse(f"inventory:{self.kind.key}-edit", args=[row.pk]),
            "delete_url": reverse(f"inventory:{self.kind.key}-delete", args=[row.pk]),
            "history": audit_entries_for_object(self.actor, self.kind.object_type, row.pk)[:HISTORY_ROWS],
        }


class NounFormPage(NounPage, FormPage):
    """Base of the pages on which a thing is typed in."""

    template_name = "inventory/form.html"

    def form(self, data: Any = None) -> NounForm:
        """Return the kind's form."""
        return self.kind.form(data)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Check, write, show the thing."""
        form = self.form(request.POST)
        return self.submit(form, lambda: self.write(form.facts()))

    def write(self, facts: dict[str, Any]) -> HttpResponse:
        """Call the kind's service."""
        raise NotImplementedError


class NounCreate(NounFormPage):
    """Declare a thing."""

    def context(self) -> dict[str, Any]:
        """Name the page."""
        return {"title": f"Declare a {self.kind.one}", "kind": self.kind}

    def write(self, facts: dict[str, Any]) -> HttpResponse:
        """Create it."""
        facts.pop("expected_version")
        row: Any = self.kind.create(actor=self.actor, **facts)
        return HttpResponseRedirect(row.get_absolute_url())


class NounEdit(NounFormPage):
    """Change what was declared or discovered."""

    def context(self) -> dict[str, Any]:
        """Name the page."""
        return {"title": "Edit", "kind": self.kind, "row": self.row()}

    def form(self, data: Any = None) -> NounForm:
        """Show what is."""
        blank = self.kind.form()
        return self.kind.form(data, initial=blank.initial_of(self.row()))

    def write(self, facts: dict[str, Any]) -> HttpResponse:
        """Change it."""
        row: Any = self.kind.update(actor=self.actor, **{f"{self.kind.key}_id": self.kwargs["pk"]}, **facts)
        return HttpResponseRedirect(row.get_absolute_url())


class NounDelete(NounPage, ActPage):
    """Remove a thing from the inventory."""

    title = "Delete"
    form_class = ReasonForm
    verb_label = "Delete"

    def question(self) -> str:
        """Ask."""
        return f"Delete {self.kind.one} {self.row()}?"

    def consequence(self) -> str:
        """Say what follows."""
        return "Its history stays in the audit log. If an agent still sees it, it comes back with the next discovery."

    def back_url(self) -> str:
        """Return the thing's page."""
        return str(self.row().get_absolute_url())

    def act(self, data: dict[str, Any]) -> str:
        """Delete it."""
        key = {f"{self.kind.key}_id": self.kwargs["pk"]}
        self.kind.delete(actor=self.actor, reason=data["reason"], **key)
        return self.list_url()
