"""Signing in and out, one's own account, and the people whom admins manage."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from fabric.accounts.filters import PersonFilter
from fabric.accounts.forms import ApiTokenForm, PasswordForm, PersonEditForm, PersonForm, PreferencesForm
from fabric.accounts.login import forget_login_attempts, register_login_attempt
from fabric.accounts.models import User
from fabric.accounts.selectors import api_tokens_for_list, users_for_list
from fabric.accounts.services import (
    change_password,
    create_api_token,
    create_user,
    reset_password,
    revoke_api_token,
    update_preferences,
    update_user,
)
from fabric.accounts.tables import ApiTokenTable, PersonTable
from fabric.audit.selectors import audit_entries_for_object
from fabric.core.actor import Role
from fabric.core.errors import FabricError, NotFound
from fabric.core.web.errors import add_to_form, flash
from fabric.core.web.forms import Form
from fabric.core.web.pages import HISTORY_ROWS, ActPage, Crumb, Empty, FormPage, ListPage, Page


class SignIn(LoginView):
    """The login page. Attempts are counted before the password is looked at."""

    template_name = "accounts/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Check the brake, then the password."""
        wait_s = register_login_attempt(username=request.POST.get("username", "")[:150], address=_address(request))
        if not wait_s:
            return super().post(request, *args, **kwargs)
        form = AuthenticationForm(request, initial={"username": request.POST.get("username", "")[:150]})
        response = self.render_to_response(self.get_context_data(form=form, wait_s=wait_s))
        response.status_code = 429
        response["Retry-After"] = str(wait_s)
        return response

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Forget earlier mistakes."""
        forget_login_attempts(username=form.cleaned_data["username"], address=_address(self.request))
        return super().form_valid(form)


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


@method_decorator(never_cache, name="dispatch")
@method_decorator(sensitive_post_parameters(), name="dispatch")
class Account(Page):
    """Preferences, password, API tokens. Each form posts to an address of its own and shows this page again."""

    template_name = "accounts/account.html"
    title = "Account"

    def context(self) -> dict[str, Any]:
        """Return every form, unbound."""
        user: Any = self.request.user
        return {
            "preferences": PreferencesForm(initial={"theme": user.theme, "time_zone": user.time_zone}),
            "password": PasswordForm(),
            "token": ApiTokenForm(actor=self.actor),
            "tokens": self.paged(ApiTokenTable(api_tokens_for_list(self.actor)), per_page=20),
        }

    def refuse(self, name: str, form: Form, error: FabricError | None = None) -> HttpResponse:
        """Show the page with what was wrong in one of its forms."""
        if error is not None:
            add_to_form(error, form)
        extra: dict[str, Any] = {name: form, "form": form}
        return self.render(status=422, **extra)


class SavePreferences(Account):
    """Theme and time zone."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Save both."""
        form = PreferencesForm(request.POST)
        if not form.is_valid():
            return self.refuse("preferences", form)
        try:
            update_preferences(actor=self.actor, **form.cleaned_data)
        except FabricError as error:
            return self.refuse("preferences", form, error)
        messages.success(request, "Preferences saved.")
        return HttpResponseRedirect(reverse("accounts:account"))


class SaveTheme(Page):
    """The theme alone, from the menu of every page; goes back to where it was pressed."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Save it."""
        try:
            update_preferences(actor=self.actor, theme=request.POST.get("theme", "")[:16])
        except FabricError as error:
            flash(request, error)
        back = request.POST.get("next", "")
        safe = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
        return HttpResponseRedirect(back if safe else "/")


class SavePassword(Account):
    """One's own password. Other sessions end, this one goes on."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Change it."""
        form = PasswordForm(request.POST)
        if not form.is_valid():
            return self.refuse("password", form)
        data = form.cleaned_data
        try:
            user = change_password(
                actor=self.actor, old_password=data["old_password"], new_password=data["new_password"]
            )
        except FabricError as error:
            return self.refuse("password", form, error)
        update_session_auth_hash(request, user)
        messages.success(request, "Password changed. Every other session has ended.")
        return HttpResponseRedirect(reverse("accounts:account"))


class CreateToken(Account):
    """A new API token. Its text is on the answer to this request and nowhere else."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        """Make it and show it."""
        form = ApiTokenForm(request.POST, actor=self.actor)
        if not form.is_valid():
            return self.refuse("token", form)
        data = form.cleaned_data
        try:
            minted = create_api_token(
                actor=self.actor, name=data["name"], role=data["role"], expires_at=form.expires_at()
            )
        except FabricError as error:
            return self.refuse("token", form, error)
        address = request.build_absolute_uri("/api/v1/agents/")
        return self.render(minted=minted, sample=f'curl -H "Authorization: Bearer {minted.text}" {address}')


class RevokeToken(ActPage):
    """End a token for good."""

    title = "Revoke token"
    verb_label = "Revoke token"
    success = "The token is revoked."
    role = Page.role

    def crumbs(self) -> list[Crumb]:
        """Return the account."""
        return [Crumb("Account", reverse("accounts:account"))]

    def question(self) -> str:
        """Ask."""
        token = api_tokens_for_list(self.actor).filter(pk=self.kwargs["pk"]).first()
        return f"Revoke token {token}?" if token else "Revoke this token?"

    def consequence(self) -> str:
        """Say what follows."""
        return "Whatever uses it is refused from now on. This cannot be undone."

    def back_url(self) -> str:
        """Return the account."""
        return reverse("accounts:account")

    def act(self, data: dict[str, Any]) -> str:
        """Revoke it."""
        revoke_api_token(actor=self.actor, token_id=self.kwargs["pk"])
        return self.back_url()


class PersonList(ListPage):
    """Everybody; for admins."""

    title = "People"
    noun = "people"
    intro = "Who may sign in, and what they may do. Programs use API tokens, which people make for themselves."
    role = Role.ADMIN
    table_class = PersonTable
    filterset_class = PersonFilter

    def rows(self) -> QuerySet[User]:
        """Return all."""
        return users_for_list(self.actor)

    def empty(self) -> Empty:
        """Never seen: whoever looks is one of them."""
        return Empty("Nobody", "Add the first person.", "user", "Add a person", reverse("accounts:person-create"))

    def page_actions(self) -> Sequence[dict[str, str]]:
        """Offer to add one."""
        return self.offer("Add a person", "accounts:person-create")


class PersonPage(Page):
    """Base of the pages of one person; for admins."""

    role = Role.ADMIN

    @property
    def person(self) -> User:
        """The person of the address. Raises `NotFound`."""
        person = users_for_list(self.actor).filter(pk=self.kwargs["pk"]).first()
        if person is None:
            raise NotFound("There is no such user.")
        return person

    def crumbs(self) -> Sequence[Crumb]:
        """Return the list."""
        return [Crumb("People", reverse("accounts:people"))]


@method_decorator(never_cache, name="dispatch")
class PersonCreate(PersonPage, FormPage):
    """A new person. The generated password is on the answer to this request and nowhere else."""

    title = "Add a person"
    template_name = "accounts/person_form.html"
    form_class = PersonForm
    submit_label = "Add and show the password"

    def save(self, data: dict[str, Any]) -> HttpResponse:
        """Add them and show the password, once."""
        person, password = create_user(actor=self.actor, **data)
        return self.render(form=PersonForm(), submit_label=self.submit_label, person=person, new_password=password)


class PersonEdit(PersonPage, FormPage):
    """Role and sign-in of a person."""

    template_name = "accounts/person.html"
    form_class = PersonEditForm
    success = "Saved."

    def initial(self) -> dict[str, Any]:
        """Show what is."""
        person = self.person
        return {"role": person.role, "is_active": person.is_active}

    def context(self) -> dict[str, Any]:
        """Name the person."""
        person = self.person
        history = audit_entries_for_object(self.actor, "accounts.user", person.pk)[:HISTORY_ROWS]
        return {"title": person.username, "person": person, "history": history}

    def save(self, data: dict[str, Any]) -> HttpResponse:
        """Change it. The last active admin stays one."""
        update_user(actor=self.actor, user_id=self.kwargs["pk"], **data)
        return HttpResponseRedirect(reverse("accounts:person", args=[self.kwargs["pk"]]))


@method_decorator(never_cache, name="dispatch")
class PersonReset(PersonPage, ActPage):
    """Give a person a new password and show it once."""

    title = "Reset password"
    verb_label = "Reset and show the password"

    def question(self) -> str:
        """Ask."""
        return f"Give {self.person.username} a new password?"

    def consequence(self) -> str:
        """Say what follows."""
        return "All their sessions end. The new password is shown once; they should change it on their account page."

    def back_url(self) -> str:
        """Return the person's page."""
        return reverse("accounts:person", args=[self.kwargs["pk"]])

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Reset it and show it."""
        password = reset_password(actor=self.actor, user_id=self.kwargs["pk"])
        return self.render(template="accounts/person_form.html", person=self.person, new_password=password)
