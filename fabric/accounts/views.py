"""Signing in and out, and one's own account."""

from typing import Any

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters

from fabric.accounts.forms import ApiTokenForm, PasswordForm, PreferencesForm
from fabric.accounts.login import forget_login_attempts, register_login_attempt
from fabric.accounts.selectors import api_tokens_for_list
from fabric.accounts.services import change_password, create_api_token, revoke_api_token, update_preferences
from fabric.accounts.tables import ApiTokenTable
from fabric.core.errors import FabricError
from fabric.core.web.errors import add_to_form, flash
from fabric.core.web.forms import Form
from fabric.core.web.pages import ActPage, Crumb, Page


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
        return self.render(status=422, **{name: form, "form": form})


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
